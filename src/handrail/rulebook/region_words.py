"""Regions as people read them: in sentences, and in messages about what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from handrail.regions import Box, Curve, Region, Union
from handrail.rulebook.places import in_words

# What the library calls things, and what a file calls them.
_FILE_WORDS: Mapping[str, str | Callable[[re.Match[str]], str]] = {
    r"^(?:Ball|Curve|Equal|Polytope): ": "",
    r"^(Ball|Curve|Polytope)(?= )": lambda match: f"the {match[1].lower()}",
    r" They mean normals @ x <= offsets\.": "",
    r"leave a coordinate to others=\{index: value\}": "take an observation out of `of`",
    r"Use Between\(lower, upper, …\) there, or Points\.": "Require two bounds there, such as "
    "0.45 <= … <= 0.55, or use `where` for single states.",
    r"Use Points for": "Use `where` for",
    r"the observations are": "`of` names",
    r"\bt_min\b": "from",
    r"\bt_max\b": "to",
}


def region_in_words(region: Region, observations: Sequence[str]) -> str:
    """'everywhere in a ball of phi, phi_dot (phi from 0.1 to 0.3, phi_dot 0, x 0, x_dot 0)'."""
    if isinstance(region, Union):
        parts = "; ".join(_shape_in_words(part, observations) for part in region.parts)
        return f"everywhere in {len(region.parts)} regions: {parts}"
    preposition = "on" if isinstance(region, Curve) else "in"
    return f"everywhere {preposition} {_shape_in_words(region, observations)}"


def in_file_words(message: str, names: Sequence[str] = ()) -> str:
    """A message of the library in the words of a file.

    Args:
        message: with coordinates by their index.
        names: of the coordinates.
    """
    for pattern, words in _FILE_WORDS.items():
        message = re.sub(pattern, words, message)
    return re.sub(r"\bcoordinate (\d+)\b", lambda match: names[int(match[1])], message)


def _shape_in_words(region: Region, observations: Sequence[str]) -> str:
    """The observations of the shape first."""
    bounds = np.stack(region.bounds)
    if isinstance(region, Box):
        return f"a box ({in_words(bounds, observations)})"
    described = region.describe()
    of = described.get("coordinates") or np.flatnonzero(bounds[0] < bounds[1]).tolist()
    order = [*of, *(i for i in range(len(observations)) if i not in of)]
    names = [observations[i] for i in order]
    ranges = in_words(bounds[:, order], names)
    return f"a {described['shape']} of {', '.join(names[: len(of)])} ({ranges})"
