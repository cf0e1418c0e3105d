"""Where the results of an experiment are kept: under the content of its definition.

A definition that changes in any way, or a constraint file that it names, has another folder, so
results of different things are never mixed, and what was computed once is not computed again.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

from handrail._storage import read_sealed, to_json, write_sealed
from handrail._version import VERSION
from paper.definitions import Experiment

OUTCOME, SPENT = "outcome.json", "spent.json"


@final
@dataclass(frozen=True)
class Finish:
    """How one seed ended.

    Attributes:
        message: why the learner could not go on; empty if it reached its end.
        seconds: that it took, over all sittings.
    """

    message: str
    seconds: float


def key_of(experiment: Experiment) -> str:
    """Of everything that the results depend on, apart from the seed."""
    content = to_json({"version": VERSION, **experiment.study.inputs()})
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def folders_of(results: Path, experiment: Experiment) -> list[Path]:
    """Where the results of each seed are, or will be."""
    group = results / "runs" / f"{experiment.name}-{key_of(experiment)}"
    return [group / f"seed-{seed}" for seed in range(experiment.seeds)]


def read_finish(folder: Path) -> Finish | None:
    """How the seed ended; None if it has not."""
    return Finish(**read_sealed(folder / OUTCOME)) if (folder / OUTCOME).exists() else None


def write_finish(folder: Path, message: str, seconds: float) -> None:
    """Nothing is left to do for this seed."""
    write_sealed(folder / OUTCOME, asdict(Finish(message, seconds)))


def read_spent(folder: Path) -> float:
    """Seconds spent in earlier sittings."""
    return float(read_sealed(folder / SPENT)["seconds"]) if (folder / SPENT).exists() else 0.0


def write_spent(folder: Path, seconds: float) -> None:
    """This sitting ends before the study does."""
    write_sealed(folder / SPENT, {"seconds": seconds})
