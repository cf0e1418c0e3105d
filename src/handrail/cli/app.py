"""`handrail`: every command, and those that say something about Handrail itself.

A command's module has its name. At its top it imports nothing heavy, so that help and completion
are there at once: the library is reached as users reach it, through `handrail`, which loads each
package when it is first asked for.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

import handrail as hr
from handrail.cli.answers import ENVIRONMENTS, ENVIRONMENTS_JSON, SCHEMA, answer
from handrail.cli.check import check
from handrail.cli.compare import compare
from handrail.cli.console import complain, disk_refusal
from handrail.cli.edit import edit
from handrail.cli.evaluate import evaluate
from handrail.cli.export import export
from handrail.cli.options import Json
from handrail.cli.play import play
from handrail.cli.prove import prove, verify
from handrail.cli.show import show, studio
from handrail.cli.sweep import sweep
from handrail.cli.train import resume, train
from handrail.errors import EpisodeInterrupted, HandrailError, ModulesNotImported

_CONTEXT = {
    "help_option_names": ["-h", "--help"],
    # Typer's own flags have no value by default, and to turn none into one it imports pydantic.
    "default_map": dict.fromkeys(("help", "install_completion", "show_completion"), False),
}

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # with it, help takes three times as long to appear
    context_settings=_CONTEXT,
)


def main() -> None:
    """Run the command line; errors that we foresee are printed as one message."""
    try:
        app()
    except ModulesNotImported as error:
        imports = [word for module in error.modules for word in ("--import", module)]
        command = shlex.join(["handrail", *sys.argv[1:], *imports])
        complain(f"{error} Type: {command}")
        sys.exit(2)
    except HandrailError as error:
        complain(str(error))
        sys.exit(2)
    except OSError as error:
        complain(disk_refusal(error))
        sys.exit(2)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(hr.__version__)
        raise typer.Exit


@app.callback()
def handrail(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Reinforcement learning that obeys: constraints on the policy, held from the first step."""


def environments(json: Json = False) -> None:
    """List the bundled constraint files."""
    typer.echo(answer(ENVIRONMENTS_JSON if json else ENVIRONMENTS), nl=False)


def schema() -> None:
    """Print the JSON Schema of constraint files, for editors."""
    typer.echo(answer(SCHEMA), nl=False)


def version() -> None:
    """Print the version."""
    _print_version(wanted=True)


def _saying_where(command: Callable[..., None]) -> Callable[..., None]:
    """The command; a Ctrl-C while an episode is played says in which one, and at which step."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except EpisodeInterrupted as interrupt:
            complain(str(interrupt))
            raise typer.Exit(130) from interrupt

    return run


for _command in (
    *(train, resume, sweep, compare, check, evaluate, show, prove, verify, edit, export, play),
    studio,
    *(environments, schema, version),
):
    # Typer would cut the line of help short.
    app.command(short_help=_command.__doc__, context_settings=_CONTEXT)(_saying_where(_command))
