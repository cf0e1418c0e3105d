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
    expected = _expected(standings)
    left = [e * (1.0 - one.fraction) for e, one in zip(expected, standings, strict=True)]
    return max(sum(left) / processes, max(left, default=0.0))


def share_done(standings: Sequence[Standing]) -> float:
    """How much of all work is done, from 0 to 1."""
    expected = _expected(standings)
    done = sum(e * one.fraction for e, one in zip(expected, standings, strict=True))
    return done / sum(expected) if expected else 1.0


def _expected(standings: Sequence[Standing]) -> list[float]:
    """Seconds that each job takes: by its own pace, by that of its like, or by the guess.

    Guesses are corrected by how much slower than guessed everything is that has a pace: this
    machine, today.
    """
    known = [(one, pace) for one in standings if (pace := one.pace) is not None]
    like: dict[str, list[float]] = {}
    for one, pace in known:
        like.setdefault(one.experiment, []).append(pace)
    usual = {name: sum(paces) / len(paces) for name, paces in like.items()}
    guessed = sum(one.guess for one, _ in known)
    correction = sum(pace for _, pace in known) / guessed if known else 1.0
    return [
        pace
        if (pace := one.pace) is not None
        else usual.get(one.experiment, one.guess * correction)
        for one in standings
    ]
