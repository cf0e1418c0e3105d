"""One thread for many small products.

With another core busy, two-thread products of this size wait for each other at every barrier
(design.md section 6: 0.4 ms became 72 ms). One thread is faster, and the same seed gives the same
bits whatever the number of cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch and BLAS use one thread inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)
