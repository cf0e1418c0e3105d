"""What users write on the command line, as values: settings, planes of observations."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import typer

from handrail._types import Array
from handrail.constraints import Constraint, PlacedConstraint
from handrail.errors import InvalidArgument, InvalidRulebook
from handrail.report import Slice, default_plane, plane_over
from handrail.rulebook import Rulebook, read_value

Imports = Annotated[
    list[str] | None,
    typer.Option("--import", help="A module to import first: it registers your environments."),
]


Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Always the most probable action.")
]


def import_modules(modules: Sequence[str]) -> None:
    """Import what registers the user's environments; only the command line may ask for that."""
    if modules and "" not in sys.path:
        sys.path.insert(0, "")  # modules of the present folder, as `python -m` has them
    for module in modules:
        if module.endswith(".py"):
            raise InvalidArgument(
                f"--import {module}: expected the name of a module, such as {module[:-3]}."
            )
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever the user's module does
            raise InvalidArgument(f"--import {module}: {type(error).__name__}: {error}.") from error


def settings_of(pairs: Sequence[str], **named: Any) -> dict[str, Any]:
    """`--set discount=0.99` and the options that have a name of their own, as settings."""
    settings: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator or not key:
            raise InvalidArgument(
                f"--set {pair}: expected name=value, such as --set discount=0.999."
            )
        *outer, last = key.split(".")
        inside = settings
        for name in outer:
            inside = inside.setdefault(name, {})
            if not isinstance(inside, dict):
                raise InvalidArgument(
                    f"--set {pair}: {name} was set to {inside!r} as a whole before. Name its parts "
                    f"one by one, such as --set {name}.strategy={inside}."
                )
        inside[last] = _value(pair, text)
    return settings


def _value(pair: str, text: str) -> Any:
    try:
        return read_value(text)
    except InvalidRulebook as error:
        raise InvalidArgument(f"--set {pair}: {text!r} is not a value.") from error


def states_outside(env: gym.Env[Any, Any], states: Array) -> int:
    """How many of the states the environment says it never observes."""
    space = env.observation_space
    assert isinstance(space, gym.spaces.Box)  # the rulebook refuses others
    flat = states.reshape(len(states), -1)
    # Bounds are float32: 0.1 is a little less there.
    slack = 1e-6 * np.abs(flat)
    low, high = space.low.reshape(-1), space.high.reshape(-1)
    inside = ((flat >= low - slack) & (flat <= high + slack)).all(axis=1)
    return int((~inside).sum())


def on_region(constraint: Constraint) -> bool:
    """Whether a constraint holds on infinitely many states."""
    return isinstance(constraint, PlacedConstraint) and constraint.region is not None


def plane_of(rulebook: Rulebook, over: str | None, at: Sequence[str]) -> Slice | None:
    """`--over phi,phi_dot --at x=0` as a plane; what they leave open is as in the file's own."""
    plane = default_plane(rulebook) if over is None else _plane_over(rulebook, over)
    if plane is None:
        if at:
            raise InvalidArgument("--at: there is only one observation, so no plane to draw.")
        return None
    fixed = list(plane.at)
    for pair in at:
        index, value = _fixed(rulebook, pair)
        if index in (plane.horizontal, plane.vertical):
            raise InvalidArgument(
                f"--at {pair}: {rulebook.observations[index]} is on an axis of the picture. Choose "
                "two other observations with --over, or leave it out."
            )
        fixed[index] = value
    return replace(plane, at=tuple(fixed))


def _plane_over(rulebook: Rulebook, over: str) -> Slice:
    names = [name.strip() for name in over.split(",")]
    if len(names) != 2 or names[0] == names[1]:
        raise InvalidArgument(
            f"--over {over}: expected two different observations, such as --over "
            f"{','.join(rulebook.observations[:2])}."
        )
    across, up = (_observation(rulebook, name, f"--over {over}") for name in names)
    return plane_over(rulebook, across, up)


def _fixed(rulebook: Rulebook, pair: str) -> tuple[int, float]:
    """`x=0` as the index of an observation and its value."""
    name, _, text = pair.partition("=")
    index = _observation(rulebook, name.strip(), f"--at {pair}")
    try:
        return index, float(text)
    except ValueError:
        raise InvalidArgument(
            f"--at {pair}: expected name=number, such as --at {name}=0."
        ) from None


def _observation(rulebook: Rulebook, name: str, option: str) -> int:
    if name not in rulebook.observations:
        raise InvalidArgument(
            f"{option}: unknown observation {name!r}. This environment has "
            f"{', '.join(rulebook.observations)}."
        )
    return rulebook.observations.index(name)


def refuse_ending(target: Path, ending: str, what: str) -> None:
    """A name that says something else than what the file will be."""
    if target.suffix != ending:
        raise InvalidArgument(
            f"{what} is written as a {ending} file, so --out {target} should be "
            f"{target.with_suffix(ending)}."
        )


def refuse_existing(path: Path, option: str) -> None:
    """A file that is there already, or a folder that is not."""
    if path.exists():
        raise InvalidArgument(
            f"{path} exists already. Delete it first, or choose another name with {option}."
        )
    if not path.parent.is_dir():
        raise InvalidArgument(f"{path} cannot be written: there is no folder {path.parent}.")
