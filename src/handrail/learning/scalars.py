"""The numbers of an episode by the names that loggers know.

Those that every learner has go by the names of Stable-Baselines3, over environment steps, so that
curves of both lie on top of each other: `rollout/ep_rew_mean`, `rollout/ep_len_mean` (averages of
the last 100 episodes) and `time/fps`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import final

from handrail.learning.cost import known_costs
from handrail.learning.record import Record, Seconds

_WINDOW = 100  # episodes of an average, as Stable-Baselines3 has it by default
_OWN = "handrail/"  # before the names that are ours alone


@final
class Scalars:
    """Of one learner, episode by episode: `scalars(record, seconds)`, for `record.steps`.

    Args:
        before: records of earlier episodes, which the averages go on from.
    """

    def __init__(self, before: Iterable[Record] = ()) -> None:
        self._recent = deque(before, maxlen=_WINDOW)
        self._steps, self._seconds = 0, 0.0

    def __call__(self, record: Record, seconds: Seconds) -> dict[str, float]:
        """All numbers by name; those that an episode does not have are left out."""
        self._recent.append(record)
        self._steps += record.length
        self._seconds += sum(asdict(seconds).values())
        found = {
            "rollout/ep_rew_mean": _mean([one.score for one in self._recent]),
            "rollout/ep_len_mean": _mean([one.length for one in self._recent]),
        }
        costs = known_costs(one.cost for one in self._recent)
        if costs:
            found["rollout/ep_cost_mean"] = _mean(costs)
        if self._seconds > 0.0:
            found["time/fps"] = self._steps / self._seconds
        return found | _own_numbers(record, seconds)


def _own_numbers(record: Record, seconds: Seconds) -> dict[str, float]:
    """The fields of a record, but for `steps`, over which all of them are."""
    fields = {**record.to_dict(), "active": len(record.active)}
    numbers = {key: value for key, value in fields.items() if _is_number(value)}
    del numbers["steps"]
    numbers |= {f"seconds/{key}": value for key, value in asdict(seconds).items()}
    return {_OWN + key: float(value) for key, value in numbers.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
