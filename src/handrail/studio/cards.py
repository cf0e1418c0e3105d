"""A constraint file as cards: every constraint by its words, with the numbers a slider can move."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from handrail.rulebook import KeyPath, Rulebook
from handrail.settings import DEFAULT_STD_RANGE
from handrail.studio.messages import Bound, Card, Names, RequireLine, Shape
from handrail.studio.sketch import constraints_by_entry

# A number that is neither part of a name nor a factor: those are bounds.
_NUMBER = re.compile(r"(?<![\w.*/^(])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]|\s*[*/^(])")
_COMPARISON = re.compile(r"<=|>=|==|=|<|>|≤|≥")

# Keys of an entry that say what is required in a line of text; others are said in words.
_LINES = ("require", "prefer")

# Probabilities are strictly between these, or a bound on them says nothing.
_LOWEST, _HIGHEST = 0.001, 0.999


def names_of(book: Rulebook) -> Names:
    """What the numbers of a file are called."""
    return Names(
        title=book.name,
        description=book.description,
        environment=book.environment.id,
        observations=list(book.observations),
        actions=list(book.actions),
        ranges=None if book.ranges is None else list(book.ranges),
        noises=_noises(book),
        branches=list(book.declared_actions.by_branch),
        quantity=book.quantity.noun,
        shown_action=0 if book.picture is None else book.picture.action,
        pass_mark=book.pass_mark,
    )


def _noises(book: Rulebook) -> list[tuple[float, float]]:
    """The least and the most standard deviation of each action, where they depend on the state."""
    network = book.settings.network
    if book.ranges is None or not network.std_varies:
        return []
    least, most = network.std_range or DEFAULT_STD_RANGE
    halves = [0.5 * (high - low) * network.std for low, high in book.ranges]
    return [(least * half, most * half) for half in halves]


def cards_of(book: Rulebook, shapes: Sequence[Shape]) -> list[Card]:
    """A card for every entry of the file, whatever kind of constraint it is."""
    entries = book.source.data["constraints"]
    owned = constraints_by_entry(book)
    cards = []
    for index, entry in enumerate(entries):
        path: KeyPath = ("constraints", index)
        cards.append(
            Card(
                entry=index,
                line=book.source.lines[path],
                name=str(entry["name"]),
                requirements=_requirements(book, entry, path),
                sentences=[book.sentences[one] for one in owned[index]],
                meets=any(one.meets for one in shapes if one.entry == index),
                notes=_notes([one for one in shapes if one.entry == index]),
            )
        )
    return cards


def _notes(shapes: Sequence[Shape]) -> list[str]:
    """What each shape says of itself, once."""
    return list(dict.fromkeys(one.note for one in shapes if one.note))


def _requirements(book: Rulebook, entry: Mapping[str, Any], path: KeyPath) -> list[RequireLine]:
    key = next((one for one in _LINES if entry.get(one) is not None), None)
    if key is None:
        return []
    written = entry[key]
    lines = enumerate(written) if isinstance(written, list) else [(None, written)]
    return [
        RequireLine(
            path=[*path, key, *([] if index is None else [index])],
            text=str(text),
            bounds=_bounds(book, str(text)),
        )
        for index, text in lines
    ]


def _bounds(book: Rulebook, text: str) -> list[Bound]:
    """The numbers that are compared with an action; none where more than that is said."""
    if any(re.search(rf"\b{name}\b", text) for name in book.observations):
        return []
    found = list(_NUMBER.finditer(text))
    if not 1 <= len(found) <= 2 or len(_COMPARISON.findall(text)) != len(found):
        return []
    low, high = _limits(book, text)
    return [
        Bound(
            start=one.start(),
            end=one.end(),
            value=float(one[0]),
            low=min(low, float(one[0])),
            high=max(high, float(one[0])),
        )
        for one in found
    ]


def _limits(book: Rulebook, text: str) -> tuple[float, float]:
    """Between which a bound makes sense."""
    if book.ranges is None:
        return _LOWEST, _HIGHEST
    named = [
        ends
        for name, ends in zip(book.actions, book.ranges, strict=True)
        if re.search(rf"\b{name}\b", text)
    ]
    lows, highs = zip(*(named or book.ranges), strict=True)
    return min(lows), max(highs)
