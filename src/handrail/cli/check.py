"""`handrail check`: what a constraint file asks for, and whether a fresh network can obey it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

import handrail as hr
from handrail.cli.console import note, say, say_json
from handrail.cli.options import Imports, Json, RuleFile, import_modules, settings_of
from handrail.errors import HandrailError

_CONTRADICTORY = "These constraints contradict each other. Relax one of each conflict."


def check(
    file: RuleFile,
    seed: Annotated[int | None, typer.Option(help="Of the network that is asked to obey.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="How constraints are held: reach=10, ….")
    ] = None,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Say in words what a constraint file asks for, and try it on a fresh network."""
    import_modules(modules)
    book = hr.rulebook.with_settings(hr.load_rulebook(file), **settings_of(change, seed=seed))
    env = book.make_environment()
    policy = hr.runs.make_policy(book, env)
    notes = [
        *_states_outside(book, env),
        *_too_wide_regions(book, policy),
        *_uneven_observations(book, env, policy),
    ]
    if json:
        _answer(book, policy, notes)
        return
    say(book)
    for one in notes:
        note(one)
    _try(book, policy)


def _states_outside(book: hr.Rulebook, env: Any) -> Iterator[str]:
    for one in book.constraints:
        outside = hr.rulebook.states_outside(env, one.states)
        if outside:
            of = "that stand for" if _on_region(one) else "of"
            yield (
                f"{outside} of {len(one.states)} states {of} {one.name!r} lie outside the "
                "observation space."
            )


def _too_wide_regions(book: hr.Rulebook, policy: hr.Policy) -> Iterator[str]:
    """Where states that are chosen one at a time cannot stand for a region, and how to cut it."""
    selection = book.settings.selection
    if book.settings.enforcement != "one_step" or isinstance(selection, hr.Everywhere):
        return
    states = hr.constraints.counted(selection.states, "state")
    for coordinate, regions in _wide_regions(book, policy).items():
        name, least = min(regions, key=lambda one: one[1].share)
        more = f" and {len(regions) - 1} more" if len(regions) > 1 else ""
        along, parts = book.observations[coordinate], max(one.parts for _, one in regions)
        yield (
            f"{name!r}{more}: too wide in {along} for {states} at a time ({selection.strategy}). A "
            f"step that moves the policy by 1 at {along} = {least.moved:g} moves it by "
            f"{least.share:.2g} at {along} = {least.reached:g}. Cut along {along} into {parts} "
            "parts or more, or hold the whole: selection everywhere."
        )


def _uneven_observations(book: hr.Rulebook, env: Any, policy: hr.Policy) -> Iterator[str]:
    """What is so small beside others that a network would not see it, and how to scale it."""
    states = hr.tangent.observed_states(env.observation_space, book.constraints)
    found = hr.tangent.Unevenness.of(policy, states, hr.tangent.MATTERS)
    if found is not None:
        yield str(found.named(book.observations))


def _wide_regions(
    book: hr.Rulebook, policy: hr.Policy
) -> Mapping[int, Sequence[tuple[str, hr.tangent.Carryover]]]:
    """Their names and what carries over too little in them, by the coordinate to cut along."""
    wide = defaultdict(list)
    for one in hr.constraints.expand(book.constraints, policy).regional:
        if one.row is not None:
            for found in hr.tangent.carryovers(policy, one.row.weights[0], one.region):
                if not found.enough:
                    wide[found.coordinate].append((one.name, found))
    return wide


def _answer(book: hr.Rulebook, policy: hr.Policy, notes: Sequence[str]) -> None:
    """The same for programs: also that constraints contradict each other, and which."""
    diagnosis = _diagnosed(book, policy)
    held = _first_holding(book) if diagnosis.feasible else None
    say_json(
        {
            "name": book.name,
            "environment": book.environment.id,
            "observations": book.observations or book.parts,
            "actions": book.actions,
            "constraints": book.sentences,
            "notes": notes,
            "feasible": diagnosis.feasible,
            "diagnosis": {**vars(diagnosis), "conflicts": list(map(str, diagnosis.conflicts))},
            "held": None if held is None else _holding_fields(held, book),
            "covers_both_sides": _cover_both_sides(book, policy),
        }
    )
    if not diagnosis.feasible:
        raise HandrailError(_CONTRADICTORY)


def _holding_fields(held: hr.Enforcement, book: hr.Rulebook) -> dict[str, Any]:
    influence = held.influence
    return {
        "worst_violation": held.worst_violation,
        "tolerance": held.tolerance,
        "iterations": held.iterations,
        "parameter_change": held.parameter_change,
        "influence": None if influence is None else influence_fields(influence, book),
    }


def influence_fields(influence: hr.enforcement.Influence, book: hr.Rulebook) -> dict[str, Any]:
    """What programs get to know of it."""
    kind, action = influence.quantity.part(influence.action)
    return {**vars(influence), "quantity": kind.name, "action": book.actions[action]}


def _diagnosed(book: hr.Rulebook, policy: hr.Policy) -> hr.Diagnosis:
    impossible = hr.enforcement.contradiction(hr.constraints.expand(book.constraints, policy))
    if impossible:
        raise HandrailError(impossible)
    return hr.diagnose(policy, book.constraints)


def _try(book: hr.Rulebook, policy: hr.Policy) -> None:
    diagnosis = _diagnosed(book, policy)
    regions = ", regions by 100 states each" if any(map(_on_region, book.constraints)) else ""
    say(f"On a fresh network (seed {book.settings.seed}{regions}): {diagnosis}")
    if not diagnosis.feasible:
        raise HandrailError(_CONTRADICTORY)
    held = _first_holding(book)
    alone = replace(held, influence=None)
    say(f"All constraints can hold together. {alone}", colour="green")
    if held.influence is not None:
        say(f"Elsewhere: {held.influence.with_names(book.observations, book.actions)}.")
        say(_reach_in_words(book, policy))


def _first_holding(book: hr.Rulebook) -> hr.Enforcement:
    """What a learner does before its first step, if what it obeys it obeys exactly."""
    exact = hr.rulebook.with_settings(book, enforcement="exact", soft=False)
    held = hr.make_agent(exact).first_enforcement
    assert held is not None  # a file has constraints, and they are exact
    return held


def _reach_in_words(book: hr.Rulebook, policy: hr.Policy) -> str:
    """Whether the constraints leave room for every choice, and how far they move the others."""
    both = _cover_both_sides(book, policy)
    sides = (
        "The constraints cover both sides of a choice"
        if both
        else "The constraints are one-sided: some choice has none in its favour"
    )
    if book.settings.reach != "auto":
        return f"{sides}; reach is set to {_number(book.settings.reach)}."
    advice, little = hr.settings.ADVICE, hr.settings.LEAST_AT_FIRST
    if both:
        return f"{sides}, so they are advice for everywhere (reach {advice:g})."
    reach = f"reach {_number(little)}; as advice for everywhere: --set reach={advice:g}"
    return f"{sides}, so they move the rest as little as they can ({reach})."


def _cover_both_sides(book: hr.Rulebook, policy: hr.Policy) -> bool:
    rows = hr.constraints.expand(book.constraints, policy).rows(per_region=1)
    return hr.enforcement.cover_both_sides(rows)


def _number(reach: float | hr.settings.Fading) -> str:
    if isinstance(reach, hr.settings.Fading):
        if reach.first == reach.last:
            return f"{reach.first:g}"
        updates = hr.constraints.counted(reach.updates, "update")
        return f"{reach.first:g}, after {updates} {reach.last:g}"
    return f"{reach:g}"


def _on_region(constraint: hr.Constraint) -> bool:
    """Whether a constraint holds on infinitely many states."""
    return isinstance(constraint, hr.constraints.PlacedConstraint) and constraint.region is not None
