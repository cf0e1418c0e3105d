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
from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch and BLAS use one thread inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _pools().limit(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


@cache
def _pools() -> ThreadpoolController:
    """The thread pools of this process; finding them takes milliseconds."""
    return ThreadpoolController()
