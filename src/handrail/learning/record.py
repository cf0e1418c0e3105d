"""One record per episode: what happened, apart from how long it took.

Everything in a `Record` depends on the seed alone, so two runs of the same seed write the same
bytes. Times, which never agree, are recorded beside it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

from handrail.learning.episode import Episode
from handrail.learning.update import Timing, Update


@final
@dataclass(frozen=True)
class Record:
    """One episode and the update that followed it (docs/reference/metrics.md)."""

    episode: int
    update: int | None
    score: float
    length: int
    steps: int
    terminated: bool
    batch_loss: float | None
    safe_loss: float | None
    violation_before: float | None
    violation_after: float | None
    predicted_change: float | None
    measured_change: float | None
    prediction_error: float | None
    iterations: int
    safe_return_size: float | None
    active: tuple[str, ...]
    influence: float | None = None
    largest_influence: float | None = None
    cost: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "active": list(self.active)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Record:
        """From plain values."""
        return cls(**{**values, "active": tuple(values["active"])})


@final
@dataclass(frozen=True)
class Seconds:
    """Where the time of one episode went; what several episodes share is divided among them."""

    collecting: float
    predicting: float
    solving: float
    updating: float


def make_records(
    episodes: list[Episode], first: int, number: int | None, steps: int, update: Update
) -> list[Record]:
    """Records of the episodes of one update.

    Args:
        episodes: that were played.
        first: number of the first of them.
        number: of the update, or None if the policy was frozen.
        steps: environment steps before them.
        update: what it did.
    """
    records = []
    for i, episode in enumerate(episodes):
        steps += len(episode)
        records.append(
            Record(
                episode=first + i,
                update=number,
                score=episode.score,
                length=len(episode),
                steps=steps,
                terminated=episode.terminated,
                cost=episode.cost,
                **vars(update),
            )
        )
    return records


def share_seconds(collecting: float, timing: Timing, among: int) -> Seconds:
    """The time of an update, divided among its episodes."""
    return Seconds(
        collecting / among,
        timing.predicting / among,
        timing.solving / among,
        timing.updating / among,
    )
