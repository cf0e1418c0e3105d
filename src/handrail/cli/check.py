"""`handrail check`: what a constraint file asks for, and whether a fresh network can obey it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import handrail as hr
from handrail.cli.console import note, say
from handrail.cli.options import Imports, RuleFile, import_modules, settings_of
from handrail.errors import HandrailError


def check(
    file: RuleFile,
    seed: Annotated[int | None, typer.Option(help="Of the network that is asked to obey.")] = None,
    modules: Imports = None,
) -> None:
    """Say in words what a constraint file asks for, and try it on a fresh network."""
    import_modules(modules)
    book = hr.rulebook.with_settings(hr.load_rulebook(file), **settings_of([], seed=seed))
    env = book.make_environment()
    say(book)
    _note_states_outside(book, env)
    _try(book, hr.runs.make_policy(book, env))


def _note_states_outside(book: hr.Rulebook, env: Any) -> None:
    for one in book.constraints:
        outside = hr.rulebook.states_outside(env, one.states)
        if outside:
            of = "that stand for" if _on_region(one) else "of"
            note(
                f"{outside} of {len(one.states)} states {of} {one.name!r} lie outside the "
                "observation space."
            )


def _try(book: hr.Rulebook, policy: hr.Policy) -> None:
    impossible = hr.enforcement.contradiction(hr.constraints.expand(book.constraints, policy))
    if impossible:
        raise HandrailError(impossible)
    diagnosis = hr.diagnose(policy, book.constraints)
    regions = ", regions by 100 states each" if any(map(_on_region, book.constraints)) else ""
    say(f"On a fresh network (seed {book.settings.seed}{regions}): {diagnosis}")
    if not diagnosis.feasible:
        raise HandrailError("These constraints contradict each other. Relax one of each conflict.")
    settings = book.settings
    enforcement = hr.enforce(
        policy, book.constraints, settings.tolerance, selection=settings.selection
    )
    if not enforcement.satisfied:
        raise HandrailError(enforcement.reason)
    say(f"All constraints can hold together. {enforcement}", colour="green")


def _on_region(constraint: hr.Constraint) -> bool:
    """Whether a constraint holds on infinitely many states."""
    return isinstance(constraint, hr.constraints.PlacedConstraint) and constraint.region is not None
