"""Where and with what a run was made."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from typing import final

import torch

from benchmarks.timing import torch_threads

_PACKAGES = ("handrail", "torch", "numpy", "scipy", "daqp", "piqp", "gymnasium", "numba")


@final
@dataclass(frozen=True)
class Machine:
    """Cores, versions and date of a run.

    Attributes:
        date: of the run.
        cores: that the machine has.
        cores_got: processor time over time of two-threaded products, between the parts of the run.
        architecture: of the processor.
        versions: of Python and of what the timings depend on.
    """

    date: str
    cores: int
    cores_got: list[float]
    architecture: str
    versions: dict[str, str]


def this_machine(cores_got: list[float]) -> Machine:
    """What the present run uses."""
    versions = {"python": platform.python_version()}
    versions |= {package: version(package) for package in _PACKAGES}
    return Machine(
        date=date.today().isoformat(),
        cores=os.cpu_count() or 1,
        cores_got=cores_got,
        architecture=platform.machine(),
        versions=versions,
    )


def cores_got(threads: int = 2) -> float:
    """How many cores a product of so many threads gets now: fewer when others use them too."""
    square = torch.randn(2000, 2000, dtype=torch.float64)
    with torch_threads(threads):
        square @ square
        start, processor = time.perf_counter(), time.process_time()
        for _ in range(3):
            square @ square
        return (time.process_time() - processor) / (time.perf_counter() - start)


def settle_allocator() -> None:
    """Let the C library keep freed blocks of up to 32 MB, as it does in any process some time on.

    Until a large block has been freed, it hands the activations of 200 states back to the system
    after every update. Getting them anew costs the plain update as much as its arithmetic, now and
    then: that would flatter us, at random.
    """
    block = torch.ones(31 * 2**20, dtype=torch.uint8)
    del block
