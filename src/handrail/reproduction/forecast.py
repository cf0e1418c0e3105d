"""How long it will still take: from what jobs of the same experiment took, else from a guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

_TELLING = 0.03  # of a job: before that much is done, its pace says nothing


@final
@dataclass(frozen=True)
class Standing:
    """How far one job is.

    Attributes:
        experiment: its name; jobs of the same one take about the same time.
        guess: seconds it was thought to take.
        fraction: done, from 0 to 1.
        elapsed: seconds since it began, or was taken up again; None if it has not.
        before: what was done of it when it was taken up.
    """

    experiment: str
    guess: float
    fraction: float
    elapsed: float | None
    before: float = 0.0

    @property
    def pace(self) -> float | None:
        """Seconds for the whole of it, going by what is done; None if that says nothing yet."""
        done = self.fraction - self.before
        if self.elapsed is None or done < _TELLING:
            return None
        return self.elapsed / done


def seconds_left(standings: Sequence[Standing], processes: int) -> float:
    """Until the last job ends, so many at a time."""
    left = [_expected(one, standings) * (1.0 - one.fraction) for one in standings]
    return max(sum(left) / processes, max(left, default=0.0))


def share_done(standings: Sequence[Standing]) -> float:
    """How much of all work is done, from 0 to 1."""
    expected = [_expected(one, standings) for one in standings]
    done = sum(e * one.fraction for e, one in zip(expected, standings, strict=True))
    return done / sum(expected) if expected else 1.0


def _expected(one: Standing, standings: Sequence[Standing]) -> float:
    """Seconds that a job takes: its own pace, that of its like, or the guess."""
    if one.pace is not None:
        return one.pace
    like = [p for s in standings if s.experiment == one.experiment and (p := s.pace) is not None]
    if like:
        return sum(like) / len(like)
    return one.guess * _correction(standings)


def _correction(standings: Sequence[Standing]) -> float:
    """How much slower than guessed everything is that has a pace: this machine, today."""
    known = [(s.guess, p) for s in standings if (p := s.pace) is not None]
    return sum(p for _, p in known) / sum(g for g, _ in known) if known else 1.0
