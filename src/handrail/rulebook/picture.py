"""The plane of observations that pictures of the policy show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from handrail.rulebook.findings import unknown
from handrail.rulebook.requirement import DeclaredActions
from handrail.rulebook.schema import File, PictureEntry
from handrail.rulebook.source import KeyPath, Source

_PICTURE: KeyPath = ("picture",)


@final
@dataclass(frozen=True)
class Picture:
    """Two observations vary, the others are fixed.

    Attributes:
        across: index of the observation on the horizontal axis.
        up: index of the observation on the vertical axis.
        across_range: (from, to).
        up_range: (from, to).
        at: a value for every observation; those of the two varying ones are 0.
        action: index of the action that is shown.
    """

    across: int
    up: int
    across_range: tuple[float, float]
    up_range: tuple[float, float]
    at: tuple[float, ...]
    action: int


def build_picture(source: Source, file: File) -> Picture | None:
    """The file's picture with indices for names, or None if it has none."""
    entry = file.picture
    if entry is None:
        return None
    across = _index(source, "observation", (*_PICTURE, "across"), entry.across, file.names)
    up = _index(source, "observation", (*_PICTURE, "up"), entry.up, file.names)
    if across == up:
        raise source.spot((*_PICTURE, "up")).error(
            f"both axes show {entry.up!r}. Choose two different observations."
        )
    _check_fixed(source, entry, file.names)
    actions = DeclaredActions.of(file.actions)
    return Picture(
        across,
        up,
        _range(source, "across_range", entry.across_range),
        _range(source, "up_range", entry.up_range),
        tuple(entry.at.get(name, 0.0) for name in file.names),
        _index(source, "action", (*_PICTURE, "action"), entry.action, actions.names),
    )


def _check_fixed(source: Source, entry: PictureEntry, observations: Sequence[str]) -> None:
    for name in entry.at:
        path = (*_PICTURE, "at", name)
        _index(source, "observation", path, name, observations)
        if name in (entry.across, entry.up):
            raise source.spot(path).error(f"{name!r} varies along an axis: remove it here.")


def _index(source: Source, what: str, path: KeyPath, name: str, names: Sequence[str]) -> int:
    if name not in names:
        raise source.spot(path).without_key().error(unknown(what, name, names))
    return names.index(name)


def _range(source: Source, key: str, ends: Sequence[float]) -> tuple[float, float]:
    low, high = ends
    if low >= high:
        raise source.spot((*_PICTURE, key)).error(
            f"a range goes up, but {low:g} is not below {high:g}."
        )
    return low, high
