"""The constraints of a file as Python, for whoever goes on in a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

import handrail
from handrail.constraints import Branch, Constraint, Mean, Std
from handrail.regions import Points, Region
from handrail.rulebook import Rulebook


def python_of(book: Rulebook) -> str:
    """A program that makes a policy of this environment obey; or what only the file can say."""
    parts = [_constraint(one) for one in book.constraints]
    options = {"max_episode_steps": book.environment.max_episode_steps, **book.environment.options}
    given = "".join(f", {key}={value!r}" for key, value in options.items() if value is not None)
    network = book.settings.network
    kind = "GaussianPolicy" if book.quantity.is_continuous else "CategoricalPolicy"
    kind = kind if book.branches is None else "BranchedPolicy"
    kind = f"Varying{kind}" if network.std_varies else kind
    lines = [
        "import gymnasium as gym",
        "",
        "import handrail as hr",
        "",
        f"# {', '.join(book.observations)} -> {', '.join(book.actions)}",
        f"env = gym.make({book.environment.id!r}{given})",
        f"policy = hr.{kind}.mlp(env, {network.hidden!r}, {network.activation!r}, "
        f"{book.settings.seed!r}, scale={book.scale()!r})",
        "constraints = [",
        *(f"    {part}," for part in parts),
        "]",
        "print(hr.enforce(policy, constraints))",
        "",
    ]
    return "\n".join(lines)


def _constraint(one: Constraint) -> str:
    if not is_dataclass(one):
        return f"...  # {one.name}: this kind is written in the file alone"
    values = {field.name: getattr(one, field.name) for field in fields(one) if field.init}
    defaults = {field.name: field.default for field in fields(one)}
    given = [
        f"{name}={_value(value)}"
        for name, value in values.items()
        if not (np.isscalar(value) and value == defaults[name])
    ]
    return f"{_home(type(one).__name__)}({', '.join(given)})"


def _home(name: str) -> str:
    return f"hr.{name}" if name in handrail.__all__ else f"hr.constraints.{name}"


def _value(value: Any) -> str:
    if isinstance(value, Points):
        return f"hr.Points({value.states.tolist()!r})"
    if isinstance(value, Region):
        return f"hr.regions.region_from({dict(value.describe())!r})"
    if isinstance(value, Mean | Std):
        return f"hr.{type(value).__name__}({_value(value.dimension)})"
    if isinstance(value, Branch):
        return f"hr.Branch({value.space!r}, {value.branch!r}, {_value(value.action)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_value(one)}' for key, one in value.items())}}}"
    return repr(value.tolist() if isinstance(value, np.ndarray) else value)
