"""`handrail edit`: make a trained policy obey, and show what else that changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import handrail as hr
from handrail._text import visible
from handrail.cli.check import influence_fields
from handrail.cli.console import note, say, say_json, show
from handrail.cli.evaluate import row_fields
from handrail.cli.options import (
    At,
    Imports,
    Json,
    Over,
    Statistics,
    box_of,
    import_modules,
    plane_of,
    refuse_ending,
    refuse_existing,
    settings_of,
)
from handrail.errors import InvalidArgument, StorageFailure

if TYPE_CHECKING:
    from rich.table import Table

# Of a run's settings, those that say how an edit holds constraints.
_SETTINGS = ("selection", "tolerance")


def edit(
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
    max_change_in: Annotated[
        list[str] | None,
        typer.Option(
            help="A box in which --max-change holds at every state, one observation at a time: "
            "x=-1..1, phi=0."
        ),
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Prove that the constraints on regions hold.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Of what changed; by default OUT with .png.")
    ] = None,
    over: Over = None,
    at: At = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="How constraints are held: selection=…, tolerance=…."),
    ] = None,
    statistics: Statistics = None,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Change a trained policy as little as possible so that constraints hold; it acts nowhere."""
    import_modules(modules)
    settings = settings_of(change)
    _refuse_other_settings(settings)
    book = hr.rulebook.with_settings(hr.load_rulebook(constraints), **settings)
    subject = hr.runs.open_policy(path, "An edit is about one policy", book, statistics)
    drawing = target.with_suffix(".png") if picture is None else picture
    refuse_ending(target, subject.ending, "The edited policy")
    refuse_existing(target, "--out")
    refuse_existing(drawing, "--picture")
    subject.check_constraints_of(book)
    shown = book.shown_to(subject.own_spaces[0])
    references = _references(book, shown, states, subject.spaces[0])
    plane = plane_of(book, over, at)
    if subject.note and not json:
        note(subject.note)
    before = subject.policy.with_module(deepcopy(subject.policy.module))
    result = hr.edit(
        subject.policy,
        shown.constraints,
        references,
        max_change,
        book.settings.tolerance,
        _selection(book, prove),
        limits=_limits(book),
        max_change_in=box_of(book, max_change_in) if max_change_in else None,
    ).raise_if_refused()
    with _storing(target):
        subject.save(target, book)
    if not json:
        _report(path, subject, before, result, book)
        say(f"Wrote {target}.")
    if plane is not None:
        figure = hr.report.change_figure(before, subject.policy, book, plane, mark=result.influence)
        with _storing(drawing):
            hr.report.save_figure(figure, drawing)
    if json:
        files = {"edited": target, "picture": None if plane is None else drawing}
        say_json({"note": subject.note, **files, **_fields(result, book)})
    elif plane is None:
        say("No picture: there are no two named observations, so no plane to draw.")
    else:
        say(f"Wrote {drawing}.")


def _refuse_other_settings(settings: Iterable[str]) -> None:
    """What learners are told, and an edit has no use for."""
    for name in settings:
        if name == "reach":
            raise InvalidArgument(
                "--set reach=…: an edit has no reach. It changes the policy as little as possible "
                "at the reference states: say which with --states, and how much at most with "
                "--max-change. Constraints that should reach further are held by "
                "handrail.enforce(policy, constraints, reach=…), in Python."
            )
        if name not in _SETTINGS:
            raise InvalidArgument(
                f"--set {name}=…: an edit does not learn, so of the settings it takes "
                f"{' and '.join(_SETTINGS)} only. Leave it out."
            )


def _fields(result: hr.Edit, book: hr.Rulebook) -> dict[str, Any]:
    """What programs get to know of it."""
    return {
        "tolerance": result.tolerance,
        "before": row_fields(result.before),
        "after": row_fields(result.after),
        "worst_violation": result.enforcement.worst_violation,
        "iterations": result.enforcement.iterations,
        "proven": result.enforcement.proven,
        "relative_change": result.relative_change,
        "proven_change": result.proven_change,
        "influence": influence_fields(result.influence, book),
    }


def _report(
    path: Path,
    subject: hr.runs.SavedPolicy,
    before: hr.Policy,
    result: hr.Edit,
    book: hr.Rulebook,
) -> None:
    """The table; and a note, where another law suffered from this one."""
    law = subject.constraints
    own = (hr.measure(before, law), hr.measure(subject.policy, law)) if law else None
    show(_table(f"{path}, edited", result, book, own))
    if result.unchanged:
        say(result)
    elif result.enforcement.not_proven:
        note(result.enforcement.not_proven)
    if own is not None and own[1].broken(result.tolerance) > own[0].broken(result.tolerance):
        note(
            "the constraints that it obeyed before no longer all hold. Where both should, put both "
            "into the constraint file."
        )


def _table(
    title: str,
    result: hr.Edit,
    book: hr.Rulebook,
    own: tuple[hr.Violations, hr.Violations] | None,
) -> Table:
    """What was asked of a policy, and what else that changed.

    Args:
        title: which policy.
        result: of its edit.
        book: names its actions.
        own: of the constraints that it obeyed before, if it had any: before and after the edit.
    """
    from rich.table import Table

    def violated(found: Iterable[hr.Violations]) -> str:
        return " → ".join(f"{one.broken(result.tolerance)} of {len(one)}" for one in found)

    effects, enforcement = result.influence, result.enforcement
    before, after = result.before.worst_violation, enforcement.worst_violation
    table = Table(title=visible(title), title_justify="left", show_header=False)
    table.add_row("violated rows", violated([result.before, result.after]))
    table.add_row("worst violation", f"{before:+.1e} → {after:+.1e}")
    if enforcement.certificates:
        proven = sum(one.certified for one in enforcement.certificates)
        table.add_row("regions proven", f"{proven} of {len(enforcement.certificates)}")
    if result.proven_change is not None:
        table.add_row("change proven", f"at most {result.proven_change:.2g} in that region")
    if own is not None:
        table.add_row("violated rows of its own", violated(own))
    table.add_row("iterations", str(enforcement.iterations))
    table.add_row("change of the weights", f"{result.relative_change:.2%}")
    table.add_section()
    rows = dict(effects.as_rows())
    kind, action = effects.quantity.part(effects.action)
    of_it = f"the {kind.name} of {book.actions[action]}"
    rows["largest change"] = f"{effects.largest_change:.2g} of {of_it}"
    for row in rows.items():
        table.add_row(*map(visible, row))
    return table


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    """In words, where the disk refuses."""
    try:
        yield
    except OSError as error:
        raise StorageFailure(f"{path} cannot be written: {error.strerror or error}.") from error


def _limits(book: hr.Rulebook) -> tuple[list[float], list[float]] | None:
    if book.ranges is None:
        return None
    return [low for low, _ in book.ranges], [high for _, high in book.ranges]


def _references(
    book: hr.Rulebook, shown: hr.Rulebook, states: Path | None, seen: Any
) -> hr.enforcement.References:
    """Where the policy should stay as it is; `shown` is the file as the policy is shown images."""
    if states is not None:
        return hr.enforcement.read_references(states, shown.constraints)
    space: Any = book.make_environment().observation_space  # a Box: the rulebook refuses others
    space = space if shown is book else seen
    return hr.enforcement.references_of_space(space, shown.constraints, book.scale())


def _selection(book: hr.Rulebook, prove: bool) -> hr.settings.Selection:
    chosen = book.settings.selection
    if not prove:
        return chosen
    if not isinstance(chosen, hr.Everywhere):
        raise InvalidArgument(
            f"--prove is about whole regions, selection {chosen.strategy!r} about some of their "
            "states: add --set selection=everywhere."
        )
    return chosen.model_copy(update={"prove": True})
