"""The states of regions' samples that are near their bounds, without measuring all of them.

A network that has moved a little has nearly the log-odds that it had. How far they can have moved
is bounded from the weights, in boxes that cover the regions: what cannot have come near its bound
is not measured again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import final

import numpy as np

from handrail._types import Array, Indices, Mask
from handrail.enforcement.candidates import Sample, Scored
from handrail.policies import FusedNetwork, Policy

# Other samples of a region, which take turns.
_TURNS = 8

# Boxes of a region in which changes are bounded: more are tighter, and cost more.
_PARTS = 8

# Of log-odds, however they were computed.
_ROUNDING = 1e-9


@final
class Screen:
    """A sample of each region, of which only those states are measured that may be near bounds.

    What comes out depends on the present policy alone.

    Args:
        samples: of some regions.
        drift: in these regions, if somebody follows it already.
    """

    def __init__(self, samples: Sequence[Sample], drift: Drift | None = None) -> None:
        self.samples = samples
        self._by_odds = [index for index, one in enumerate(samples) if one.odds is not None]
        about_odds = [samples[index] for index in self._by_odds]
        self.drift = Drift(about_odds) if drift is None else drift
        self._log_odds = _LogOdds(about_odds, self.drift)

    def near(self, policy: Policy, among: Collection[int] | None = None) -> dict[int, Scored]:
        """Of each sample, by number, the states that are violated or nearly so.

        If there are none, the worst; or nothing, where another sample has a worse one for certain.

        Args:
            policy: as it is.
            among: the numbers of the samples; by default of all.
        """
        asked = range(len(self.samples)) if among is None else among
        network = policy.fused()
        numbers = {} if network is None else self._numbers_of(asked)
        found = {}
        if network is not None and numbers:
            near = self._log_odds.near(policy, network, numbers.values())
            found = dict(zip(numbers, near, strict=True))
        for index in asked:
            if index not in found:
                sample = self.samples[index]
                scored = sample.measure(policy)
                found[index] = scored.among(sample.is_near(scored) | scored.is_highest)
        highest = max(one.highest for one in found.values())
        for index, number in numbers.items():
            if not len(found[index].states) and self.samples[index].nearness > highest:
                found[index] = self._log_odds.worst(policy, number)
                highest = max(highest, found[index].highest)
        return found

    def _numbers_of(self, asked: Collection[int]) -> dict[int, int]:
        """Of the samples that are about log-odds: which of these each is."""
        pairs = enumerate(self._by_odds)
        return {index: number for number, index in pairs if index in asked}


@final
class _LogOdds:
    """Between what the log-odds at the states of some samples are, one network after the other.

    Args:
        samples: of constraints that are about log-odds.
        drift: how far they move.
    """

    def __init__(self, samples: Sequence[Sample], drift: Drift) -> None:
        self._samples, self._drift = samples, drift
        ends = np.cumsum([0, *(len(one.states) for one in samples)])
        self._own = [slice(*pair) for pair in pairwise(ends.tolist())]
        self._between = np.empty((int(ends[-1]), 2))
        self._followed: Drifted | None = None

    @cached_property
    def _box(self) -> Indices:
        """In which each state is."""
        return self._drift.boxes_of(self._samples)

    @cached_property
    def _asked(self) -> _Asked:
        return _Asked.of(self._samples)

    def near(self, policy: Policy, network: FusedNetwork, numbers: Collection[int]) -> list[Scored]:
        """Of some samples all states that are near their bounds; maybe none."""
        self._follow(network)
        maybe = np.zeros(len(self._between), dtype=bool)
        for number in numbers:
            own = self._own[number]
            between, enough = self._between[own], self._asked.enough[own]
            maybe[own] = (between[:, 0] < enough[:, 0]) | (between[:, 1] > enough[:, 1])
        measured = np.full(len(maybe), -np.inf)
        if maybe.any():
            measured[maybe] = self._measured(policy, np.flatnonzero(maybe))
        return [self._near_in(number, measured) for number in numbers]

    def _near_in(self, number: int, measured: Array) -> Scored:
        sample = self._samples[number]
        scored = Scored(sample.states, measured[self._own[number]])
        return scored.among(sample.is_near(scored))

    def worst(self, policy: Policy, number: int) -> Scored:
        """The worst states of one sample, after `near` was asked of all."""
        sample, own = self._samples[number], self._own[number]
        least, most = self._between[own].T
        asked = self._asked
        with np.errstate(over="ignore"):
            at_most = np.maximum(
                asked.lower[own] - 1.0 / (1.0 + np.exp(-least)),
                1.0 / (1.0 + np.exp(-most)) - asked.upper[own],
            )
        known = np.zeros(len(at_most), dtype=bool)
        wanted = at_most == at_most.max()
        while wanted.any():
            at_most[wanted] = self._measured(policy, own.start + np.flatnonzero(wanted))
            known |= wanted
            # Whatever is not known is at most what it says: done, if the worst of all is known.
            wanted = ~known & (at_most > at_most[known].max())
        scored = Scored(sample.states, at_most)
        return scored.among(known & scored.is_highest)

    def _follow(self, network: FusedNetwork) -> None:
        """The weights have moved."""
        before, self._followed = self._followed, self._drift.up_to(network)
        if before is None or before.since != self._followed.since:
            self._between[:] = -np.inf, np.inf
        else:
            self._between += (self._followed.total - before.total)[self._box]

    def _measured(self, policy: Policy, asked: Indices) -> Array:
        """The violations of some states, and their log-odds from now on."""
        outputs = policy.outputs(self._asked.states[asked])
        weights = self._asked.weights[asked]
        values = (weights * outputs).sum(axis=1)
        others, tiny = ((1.0 - weights) * outputs).sum(axis=1), np.finfo(np.float64).tiny
        log_odds = np.log(np.maximum(values, tiny)) - np.log(np.maximum(others, tiny))
        off = _ROUNDING * (1.0 + np.abs(log_odds))
        self._between[asked] = np.stack([log_odds - off, log_odds + off], axis=1)
        violations: Array = np.maximum(
            self._asked.lower[asked] - values, values - self._asked.upper[asked]
        )
        return violations


@final
@dataclass(frozen=True)
class _Asked:
    """What is asked at n states, all of which are about log-odds.

    Attributes:
        states: (n, n_coordinates).
        weights: (n, n_actions) of the outputs: 0 or 1.
        lower: (n,) bounds of their sums, and
        upper: (n,).
        enough: (n, 2) log-odds from which on a state is not near its lower bound, and up to which
            not near its upper one; a little further in, so that rounding is of no account.
    """

    states: Array
    weights: Array
    lower: Array
    upper: Array
    enough: Array

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> _Asked:
        """At all states of some samples."""
        sizes = [len(one.states) for one in samples]
        rows = [one.odds for one in samples if one.odds is not None]
        lower, upper = (
            np.repeat([float(getattr(row, name)[0]) for row in rows], sizes)
            for name in ("lower", "upper")
        )
        near = np.repeat([-one.nearness for one in samples], sizes) + _ROUNDING
        with np.errstate(divide="ignore"):
            enough = [_log_odds(lower + near), -_log_odds(1.0 - upper + near)]
        return cls(
            np.concatenate([one.states for one in samples]),
            np.repeat([row.weights[0] for row in rows], sizes, axis=0),
            lower,
            upper,
            np.stack(enough, axis=1),
        )


def _log_odds(probabilities: Array) -> Array:
    """Infinite at the ends and beyond."""
    inside = np.clip(probabilities, 0.0, 1.0)
    result: Array = np.log(inside) - np.log1p(-inside)
    return result


@final
@dataclass(frozen=True)
class Drifted:
    """Between what log-odds have changed in n boxes, since a network.

    Attributes:
        since: its number.
        total: (n, 2).
    """

    since: int
    total: Array


@final
class Drift:
    """How far log-odds can have moved, one network after the other, in boxes that cover regions.

    From the weights of every network and the next; all that happened in between adds up. That is
    tighter than from the weights of long ago: what bends is bounded by how far both have moved.

    Args:
        samples: one of each region, of constraints that are about log-odds.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._network: FusedNetwork | None = None
        self._drifted = Drifted(0, np.zeros((0, 2)))

    @cached_property
    def _boxes(self) -> list[Array]:
        """Of each region (n, 2, n_coordinates): low and high."""
        return [np.stack(_boxes_around(one)) for one in self._samples]

    @cached_property
    def _by_functional(self) -> list[tuple[Array, Mask]]:
        """Which actions are asked for (n_actions,), and the boxes (n,) in which they are."""
        rows = [one.odds for one in self._samples if one.odds is not None]
        sizes = [len(boxes) for boxes in self._boxes]
        wanted = np.repeat([row.weights[0] for row in rows], sizes, axis=0)
        return [(one, (wanted == one).all(axis=1)) for one in np.unique(wanted, axis=0)]

    def boxes_of(self, samples: Sequence[Sample]) -> Indices:
        """The numbers of the boxes in which states of the same regions are."""
        found, first = [], 0
        for sample, boxes in zip(samples, self._boxes, strict=True):
            low, high = boxes[:, 0, None], boxes[:, 1, None]
            inside = ((low <= sample.states) & (sample.states <= high)).all(axis=2)
            assert inside.any(axis=0).all()  # they cover the region
            found.append(first + inside.argmax(axis=0))
            first += len(boxes)
        return np.concatenate(found)

    def up_to(self, network: FusedNetwork) -> Drifted:
        """From the first network of this shape to this one."""
        then = self._network
        if then is not None and network.has_shape_of(then):
            if network.equals(then):
                return self._drifted
            changes = self._changes(then, network)
            if np.isfinite(changes).all():  # else whoever measures says what is wrong
                self._network = network.copy()
                self._drifted = Drifted(self._drifted.since, self._drifted.total + changes)
                return self._drifted
        self._network = network.copy()
        n_boxes = sum(map(len, self._boxes))
        self._drifted = Drifted(self._drifted.since + 1, np.zeros((n_boxes, 2)))
        return self._drifted

    def _changes(self, then: FusedNetwork, now: FusedNetwork) -> Array:
        """Between what the log-odds have changed in each box (n, 2)."""
        low, high = np.concatenate(self._boxes).transpose(1, 0, 2)
        result = np.empty((len(low), 2))
        unit = np.eye(len(self._by_functional[0][0]))
        for weights, own in self._by_functional:
            wanted = weights == 1.0
            changes = np.stack(
                [
                    now.changes_since(then, one - other, low[own], high[own])
                    for one, other in product(unit[wanted], unit[~wanted])
                ]
            )
            # Log-odds of sums of probabilities change by no more than those of any two.
            least, most = changes[..., 0].min(axis=0), changes[..., 1].max(axis=0)
            result[own] = np.stack([least - _ROUNDING, most + _ROUNDING], axis=1)
        return result


def _boxes_around(sample: Sample) -> list[Array]:
    """Boxes (2, n_coordinates) that cover the region: halved where the sample extends most."""
    low, high = sample.regional.region.bounds
    aside = _ROUNDING * sample.scale  # what only rounding puts outside is inside
    found = [(np.stack([low - aside, high + aside]), sample.states / sample.scale)]
    while 2 * len(found) <= min(_PARTS, len(sample.states)):
        found = [half for box, scaled in found for half in _halves(box, scaled, sample.scale)]
    return [box for box, _ in found]


def _halves(box: Array, scaled: Array, scale: Array) -> list[tuple[Array, Array]]:
    """Two boxes with half of the states (n, n_coordinates) each, which are in units of a scale."""
    widest = int(np.ptp(scaled, axis=0).argmax())
    middle = np.median(scaled[:, widest])
    below = scaled[:, widest] <= middle
    halves = box.copy(), box.copy()
    halves[0][1, widest] = halves[1][0, widest] = middle * scale[widest]
    return [(halves[0], scaled[below]), (halves[1], scaled[~below])]


@final
class Turns:
    """Screens of other samples of some regions, one after the other.

    A network that is bent until one sample obeys may break a bound between its states.

    Args:
        screen: of samples that the others are like.

    Attributes:
        turn: the number of the last one.
    """

    def __init__(self, screen: Screen) -> None:
        self.turn = 0
        self._first = screen
        self._screens: dict[int, Screen] = {}

    def next(self) -> Screen:
        """Known from its last turn, if it has had one."""
        self.turn = (self.turn + 1) % _TURNS
        if self.turn not in self._screens:
            moved = [one.moved(self.turn) for one in self._first.samples]
            self._screens[self.turn] = Screen(moved, self._first.drift)
        return self._screens[self.turn]
