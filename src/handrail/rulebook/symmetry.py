"""What a file says of mirror images: `symmetric: {mirror: {phi: -phi}, swap: {left: right, …}}`.

`mirror` says what each observation becomes, `swap` what each action does there, in the file's own
names; what is left out stays itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from handrail._types import Array
from handrail.constraints import Mean, Symmetric
from handrail.errors import InvalidConstraint
from handrail.formulas import InvalidFormula, UnknownName, parse_formula
from handrail.regions import Place
from handrail.rulebook.findings import unknown
from handrail.rulebook.requirement import DeclaredActions, Required
from handrail.rulebook.schema import SymmetryEntry


@final
@dataclass(frozen=True)
class Symmetry(Required):
    """The policy at a state and at its image.

    Attributes:
        matrix: (n_observations, n_observations) from a state to its image.
        actions: (n_actions, n_actions) of each action there, in terms of all.
        continuous: whether these are weights of means; else one of them is 1.
        within: the largest difference.
        text: as people read it.
    """

    matrix: Array = field(compare=False)
    actions: Array = field(compare=False)
    continuous: bool
    within: float
    text: str

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for symmetries that say the same."""
        return ("symmetric", self.matrix.tobytes(), self.actions.tobytes(), self.within)

    def at(self, where: Place, name: str, priority: float) -> Symmetric:
        """The symmetry at these states, as one of the library's constraints."""
        swap = self._means() if self.continuous else self._permutation()
        return Symmetric(where, self.matrix, swap, self.within, name, priority)

    def _means(self) -> Mapping[int, Mean]:
        return {
            action: Mean({int(one): float(row[one]) for one in np.flatnonzero(row)})
            for action, row in enumerate(self.actions)
        }

    def _permutation(self) -> Mapping[int, int]:
        return {action: int(row.argmax()) for action, row in enumerate(self.actions)}


def read_symmetry(
    entry: SymmetryEntry, actions: DeclaredActions, observations: Sequence[str]
) -> Symmetry:
    """Of these actions and observations.

    Raises:
        InvalidConstraint: if it cannot be read, or is none.
    """
    if actions.branches is not None:
        raise InvalidConstraint(
            "symmetry of branches is not known: it relates the actions of a single choice. Require "
            f"the same at both states instead, such as {actions.names[0]} >= 0.9."
        )
    matrix = _images("mirror", entry.mirror, observations, "observation")
    if np.array_equal(matrix, np.eye(len(matrix))):
        raise InvalidConstraint("`mirror` changes nothing: every state is its own mirror image.")
    continuous = actions.ranges is not None
    images = (
        _images("swap", entry.swap, actions.names, "action")
        if continuous
        else _exchanged(entry.swap, actions.names)
    )
    parts = [*_in_words(entry.mirror), *_in_words(entry.swap)]
    within = f" within {entry.within:g}" if entry.within else ""
    text = f"symmetric{within} ({', '.join(parts)})"
    return Symmetry(matrix, images, continuous, entry.within, text)


def _in_words(images: Mapping[str, str | float]) -> list[str]:
    return [f"{name} to {_text(image)}" for name, image in images.items()]


def _text(image: str | float) -> str:
    return image if isinstance(image, str) else f"{image:g}"


def _images(key: str, images: Mapping[str, str | float], names: Sequence[str], kind: str) -> Array:
    """A row for each name, of what it becomes: a sum of names with weights."""
    matrix = np.eye(len(names))
    for name, image in images.items():
        if name not in names:
            raise InvalidConstraint(f"`{key}`: {unknown(kind, name, names)}")
        try:
            found = parse_formula(_text(image), names, kind).affine()
        except UnknownName as error:
            raise InvalidConstraint(f"`{key}`: {unknown(kind, error.name, names)}") from None
        except InvalidFormula as error:
            raise InvalidConstraint(
                f"`{key}`: {name} becomes {_text(image)!r}: {error} Write a sum such as -{name}."
            ) from None
        if found.offset or not np.isfinite(found.gain).all():
            raise InvalidConstraint(
                f"`{key}`: {name} becomes {_text(image)!r}, but the image of 0 must be 0. Leave "
                "out what is added."
            )
        matrix[names.index(name)] = found.gain
    if key == "swap" and not matrix.any(axis=1).all():
        raise InvalidConstraint("`swap`: an action becomes 0; bound it instead.")
    return matrix


def _exchanged(images: Mapping[str, str | float], names: Sequence[str]) -> Array:
    """Of discrete actions: a permutation."""
    for name in (*images, *map(_text, images.values())):
        if name not in names:
            raise InvalidConstraint(f"`swap`: {unknown('action', name, names)}")
    if set(images) != set(images.values()):
        raise InvalidConstraint(
            "`swap` must say of each action that it names what becomes of it, and of no two the "
            f"same, such as {{{names[0]}: {names[1]}, {names[1]}: {names[0]}}}."
        )
    order = [names.index(_text(images.get(name, name))) for name in names]
    found: Array = np.eye(len(names))[order]
    return found
