"""Steps in parameter space, and policies that come out of a failure as they went in."""

from __future__ import annotations

import pytest
import torch

from handrail.tangent import (
    Gradient,
    distance,
    restore,
    snapshot,
    take_step,
    unchanged_on_failure,
)
from tests.conftest import small_policy


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_whatever_is_raised_the_policy_is_as_it_was(error: type[BaseException]) -> None:
    policy = small_policy()
    before = snapshot(policy)

    def fail_after_a_step() -> None:
        with unchanged_on_failure(policy):
            take_step(policy, Gradient(tuple(before)), 0.5)
            assert distance(policy, before) > 0.0
            raise error

    with pytest.raises(error):
        fail_after_a_step()
    pairs = zip(snapshot(policy), before, strict=True)
    assert all(torch.equal(now, then) for now, then in pairs)


def test_what_succeeds_stays_and_what_fails_quietly_can_go_back() -> None:
    policy = small_policy()
    with unchanged_on_failure(policy) as start:
        take_step(policy, Gradient(tuple(start)), 0.5)
    assert distance(policy, start) == pytest.approx(0.5 * Gradient(tuple(start)).norm())
    restore(policy, start)
    assert distance(policy, start) == 0.0
