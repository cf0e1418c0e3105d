"""What is kept of a training: a line of JSON, with what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, final

import numpy as np

from benchmarks.harness import versions_of

_PACKAGES = ("handrail", "stable-baselines3", "sb3-contrib", "torch", "numpy", "gymnasium")


@final
@dataclass(frozen=True)
class Line:
    """One training.

    Attributes:
        name: of its cell.
        fingerprint: of what it depends on: with another one, it is not this cell's any more.
        code: fingerprint of the code of Handrail that took part; None: none did.
        date: when it ended, in UTC, to the minute.
        versions: of what it ran with.
        result: what it came to: plain numbers and words, by name.
    """

    name: str
    fingerprint: str
    code: str | None
    date: str
    versions: Mapping[str, str]
    result: Mapping[str, Any]

    @classmethod
    def of_now(cls, name: str, fingerprint: str, code: str | None, result: Any) -> Line:
        """Of a training that has just ended, from the dataclass that says what it came to."""
        date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
        return cls(name, fingerprint, code, date, versions_of(_PACKAGES), _short(asdict(result)))


def _short(value: Any) -> Any:
    """Six digits of every number, which is more than any page shows; None where there is none."""
    if isinstance(value, Mapping):
        return {name: _short(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_short(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value


def versions_in_words(lines: Iterable[Line]) -> str:
    """All that took part in some of them: "python 3.11.7, torch 2.12.0 and 2.13.0"."""
    found: dict[str, set[str]] = {}
    for line in lines:
        for package, version in line.versions.items():
            found.setdefault(package, set()).add(version)
    return ", ".join(f"{name} {' and '.join(sorted(several))}" for name, several in found.items())
