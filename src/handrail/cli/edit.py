"""`handrail edit`: make a trained policy obey, and show what else that changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Annotated

import gymnasium as gym
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from handrail._storage import write_atomically
from handrail._types import Array
from handrail.cli.options import (
    Imports,
    import_modules,
    plane_of,
    refuse_ending,
    refuse_existing,
    settings_of,
)
from handrail.constraints import Violations, state_in_words
from handrail.enforcement import (
    Edit,
    References,
    edit,
    given_references,
    measure,
    references_of_space,
)
from handrail.errors import InvalidArgument, StorageFailure
from handrail.report import edit_figure, over_plane
from handrail.rulebook import Rulebook, load_rulebook, with_settings
from handrail.runs import open_policy
from handrail.settings import Everywhere, Selection

_DOTS_PER_INCH = 130


out = Console()


def edit_policy(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="POLICY",
            help="A run; or a file that `Reinforce.save` or Stable-Baselines3 (.zip) wrote. A .zip "
            "contains pickles: only files you trust.",
        ),
    ],
    constraints: Annotated[
        str, typer.Option(metavar="FILE|NAME", help="A constraint file, or a bundled one's name.")
    ],
    target: Annotated[
        Path, typer.Option("--out", "-o", help="The edited policy: .zip of a .zip, else a learner.")
    ],
    states: Annotated[
        Path | None,
        typer.Option(help="Visited states (n, n_observations) as .npy: there, change least."),
    ] = None,
    max_change: Annotated[
        float | None,
        typer.Option(min=0.0, help="Refuse if an output changes by more at such a state."),
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Prove that the constraints on regions hold.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Of what changed; by default OUT with .png.")
    ] = None,
    over: Annotated[
        str | None, typer.Option(help="Two observations of the picture's plane: phi,phi_dot.")
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="Values of the other observations: x=0.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="How constraints are held: selection=…, tolerance=…."),
    ] = None,
    modules: Imports = None,
) -> None:
    """Change a trained policy as little as possible so that constraints hold; it acts nowhere."""
    import_modules(modules or [])
    book = with_settings(load_rulebook(constraints), **settings_of(change or []))
    subject = open_policy(path, "An edit is about one policy", book)
    drawing = target.with_suffix(".png") if picture is None else picture
    refuse_ending(target, subject.ending, "The edited policy")
    refuse_existing(target, "--out")
    refuse_existing(drawing, "--picture")
    subject.check_constraints_of(book)
    references = _references(book, states)
    plane = plane_of(book, over, at or [])
    if subject.note:
        out.print(f"[yellow]note:[/] {subject.note}", highlight=False, soft_wrap=True)
    before = None if plane is None else over_plane(subject.policy, plane)
    own = measure(subject.policy, subject.constraints) if subject.constraints else None
    result = edit(
        subject.policy,
        book.constraints,
        references,
        max_change,
        book.settings.tolerance,
        _selection(book, prove),
        limits=_limits(book),
    ).raise_if_refused()
    with _storing(target):
        subject.save(target, book)
    own_after = measure(subject.policy, subject.constraints) if subject.constraints else None
    out.print(_table(f"{path}, edited", result, own, own_after, book))
    if result.unchanged:
        out.print(str(result))
    if own_after is not None and _count(own_after, result) > _count(own, result):
        out.print(
            "[yellow]note:[/] the constraints that it obeyed before no longer all hold. Where both "
            "should, put both into the constraint file.",
            highlight=False,
        )
    out.print(f"Wrote {target}.", highlight=False, markup=False, soft_wrap=True)
    if plane is None or before is None:
        out.print("No picture: there is only one observation, so no plane to draw.")
        return
    figure = edit_figure(
        book, before, over_plane(subject.policy, plane), result.side_effects, plane
    )
    content = BytesIO()
    figure.savefig(content, format="png", dpi=_DOTS_PER_INCH)
    with _storing(drawing):
        write_atomically(drawing, content.getvalue())
    out.print(f"Wrote {drawing}.", highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    """In words, where the disk refuses."""
    try:
        yield
    except OSError as error:
        raise StorageFailure(f"{path} cannot be written: {error.strerror or error}.") from error


def _limits(book: Rulebook) -> tuple[list[float], list[float]] | None:
    if book.ranges is None:
        return None
    return [low for low, _ in book.ranges], [high for _, high in book.ranges]


def _references(book: Rulebook, states: Path | None) -> References:
    if states is not None:
        return given_references(_array(states), book.constraints, f"of {states.name}")
    space = book.make_environment().observation_space
    assert isinstance(space, gym.spaces.Box)  # the rulebook refuses others
    return references_of_space(space, book.constraints, book.scale())


def _array(path: Path) -> Array:
    try:
        with path.open("rb") as file:  # which numpy would leave open where it holds several arrays
            found = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise InvalidArgument(f"--states {path}: there is no such file.") from None
    except (OSError, ValueError, EOFError):
        found = None
    if not isinstance(found, np.ndarray):  # of several arrays, numpy.savez
        raise InvalidArgument(
            f"--states {path}: expected an array (n, n_observations) that "
            "numpy.save('states.npy', array) wrote."
        )
    return found


def _selection(book: Rulebook, prove: bool) -> Selection:
    chosen = book.settings.selection
    if not prove:
        return chosen
    if not isinstance(chosen, Everywhere):
        raise InvalidArgument(
            f"--prove is about whole regions, selection {chosen.strategy!r} about some of their "
            "states: add --set selection=everywhere."
        )
    return chosen.model_copy(update={"prove": True})


def _table(
    title: str, result: Edit, own: Violations | None, own_after: Violations | None, book: Rulebook
) -> Table:
    effects, enforcement = result.side_effects, result.enforcement
    table = Table(title=title, title_justify="left", show_header=False)
    before, after = result.before, result.after
    table.add_row("violated rows", _arrow(_broken(before, result), _broken(after, result)))
    worst = f"{before.worst_violation:+.1e}", f"{enforcement.worst_violation:+.1e}"
    table.add_row("worst violation", _arrow(*worst))
    if enforcement.certificates:
        table.add_row("regions proven", f"{len(enforcement.certificates)}")
    if own is not None and own_after is not None:
        row = _arrow(_broken(own, result), _broken(own_after, result))
        table.add_row("violated rows of its own", row)
    table.add_row("iterations", str(enforcement.iterations))
    table.add_row("change of the weights", f"{result.relative_change:.2%}")
    table.add_section()
    table.add_row("reference states", f"{effects.states:,}, {effects.origin}")
    action = book.actions[effects.action]
    what = f"the {book.quantity.name} of {action}"
    table.add_row("largest change", f"{effects.largest_change:.2g} of {what}")
    table.add_row("  at", state_in_words(effects.at))
    table.add_row("mean change", f"{effects.mean_change:.2g}")
    if effects.share_of_changed_choices is not None:
        table.add_row("other choice at", f"{effects.share_of_changed_choices:.2%} of the states")
    return table


def _arrow(before: str, after: str) -> str:
    return f"{before} → {after}"


def _broken(found: Violations, result: Edit) -> str:
    return f"{_count(found, result)} of {len(found)}"


def _count(found: Violations | None, result: Edit) -> int:
    return 0 if found is None else int((found.violations > result.tolerance).sum())
