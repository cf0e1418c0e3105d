"""What needs RLlib, in the environment of its own that `make test-rllib` makes.

RLlib pins its Gymnasium, so it is not where the other tests run: there, nothing here is collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("tree") and find_spec("ray") else ["test_*.py"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """Ray on this machine, for all tests that need processes of their own."""
    import ray  # noqa: PLC0415  # only where it is installed

    ray.init("local", num_cpus=5, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()
