"""One thread for many small products.

With another core busy, two-thread products of this size wait for each other at every barrier: what
took 0.4 ms takes 72 ms. One thread is faster, and the same seed gives the same bits whatever the
number of cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from threadpoolctl import LibController, ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch and BLAS use one thread inside the block."""
    before = torch.get_num_threads()
    if before != 1:
        torch.set_num_threads(1)
    # One by one: `ThreadpoolController.limit` takes longer than what is done here before a rollout.
    busy = [(pool, n) for pool in _pools() if (n := pool.get_num_threads()) != 1]
    try:
        for pool, _ in busy:
            pool.set_num_threads(1)
        yield
    finally:
        for pool, n in busy:
            pool.set_num_threads(n)
        if before != 1:
            torch.set_num_threads(before)


@cache
def _pools() -> tuple[LibController, ...]:
    """Those of BLAS in this process; finding them takes milliseconds. That of OpenMP is torch's."""
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)
