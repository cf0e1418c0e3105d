"""One thread inside, as many as before afterwards, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from threadpoolctl import ThreadpoolController

from handrail._threads import one_thread


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with ThreadpoolController().limit(limits=2):
        yield
    torch.set_num_threads(before)


def threads() -> set[int]:
    """Of torch and of every library that multiplies matrices."""
    pools = ThreadpoolController().lib_controllers
    assert pools
    return {torch.get_num_threads(), *(one.num_threads for one in pools)}


def test_one_thread_inside_and_two_afterwards() -> None:
    assert threads() == {2}
    with one_thread():
        assert threads() == {1}
        with one_thread():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {2}


def test_also_after_an_error() -> None:
    with pytest.raises(ValueError, match="inside"), one_thread():
        raise ValueError("inside")
    assert threads() == {2}
