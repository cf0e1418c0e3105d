"""The largest violation that counts as none: the same rule, check and wording in every verb."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import handrail as hr
from handrail.constraints import Tolerance, expand
from handrail.errors import InvalidArgument
from tests.conftest import small_policy, spaces
from tests.policies.test_gaussian import gaussian

HERE = hr.Points([0.1, 0.2, 0.3])
RULES: list[hr.Constraint] = [hr.AtLeast(0.6, 1, HERE, name="p")]


def in_float32() -> hr.CategoricalPolicy:
    return hr.CategoricalPolicy.mlp(spaces(3, 3), hidden=[50], dtype=torch.float32)


def test_the_default_is_that_of_the_precision() -> None:
    rows = expand(RULES, small_policy()).fixed
    assert Tolerance().to_hold(small_policy(), rows) == 1e-6
    assert Tolerance().to_hold(in_float32(), rows) == 1e-5
    assert Tolerance().to_measure(in_float32(), None) == 1e-5
    assert Tolerance(1e-7).to_hold(small_policy(), rows) == 1e-7


def test_nothing_finer_is_held_than_float32_tells_apart() -> None:
    policy = gaussian(3, 1, dtype=torch.float32)
    rules = [hr.AtMost(750.0, hr.Mean(0), HERE), hr.AtLeast(-10.0, hr.Mean(0), HERE, name="low")]
    rows = expand(rules, policy).fixed
    spacings = 4.0 * np.finfo(np.float32).eps * 750.0
    assert Tolerance().to_hold(policy, rows) == pytest.approx(spacings)
    assert Tolerance().to_measure(policy, rows) == pytest.approx(spacings)
    assert Tolerance(1e-6).to_measure(policy, rows) == 1e-6  # measured as it was asked for
    assert Tolerance(1e-6).to_hold(gaussian(3, 1), rows) == 1e-6


def test_a_tolerance_that_float32_cannot_hold_is_refused_with_the_finest() -> None:
    policy = in_float32()
    before = [p.detach().clone() for p in policy.parameters]
    expected = r"in float32 cannot hold .* within 1e-09: .* no better than 2\.9e-07.*double"
    for verb in (hr.enforce, hr.edit):
        with pytest.raises(InvalidArgument, match=expected):
            verb(policy, RULES, tolerance=1e-9)
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters, before, strict=True))
    assert hr.enforce(policy, RULES, tolerance=2.9e-7).tolerance == 2.9e-7  # as the message says


def test_verbs_agree() -> None:
    for policy, expected in ((small_policy(), 1e-6), (in_float32(), 1e-5)):
        assert hr.enforce(policy, RULES).tolerance == expected
        assert hr.edit(policy, RULES).tolerance == expected
    for dtype, expected in ((torch.float64, 1e-6), (torch.float32, 1e-5)):
        pole = hr.CategoricalPolicy.mlp(spaces(4, 2), hidden=[50], dtype=dtype)
        rules = [hr.AtLeast(0.6, 1, hr.Points([0.0, 0.0, 0.1, 0.0]))]
        agent = hr.Reinforce("CartPole-v1", pole, rules)
        assert agent.evaluate(1).tolerance == expected
        assert hr.evaluate(pole, "CartPole-v1", rules, episodes=1).tolerance == expected


VERBS: dict[str, tuple[Callable[[Any, Path], Any], bool]] = {
    "enforce": (lambda given, _: hr.enforce(small_policy(), RULES, given), False),
    "edit": (lambda given, _: hr.edit(small_policy(), RULES, tolerance=given), False),
    "certify": (lambda given, _: hr.certify(small_policy(), RULES[0], tolerance=given), True),
    "evaluate": (lambda given, _: hr.evaluate(small_policy(), "no", tolerance=given), True),
    "export": (
        lambda given, path: hr.export_numpy(
            small_policy(), path / "policy.npz", RULES, tolerance=given
        ),
        True,
    ),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("given", [-1e-6, np.nan, np.inf, "a", True])
def test_what_is_no_tolerance_is_refused_in_one_wording(
    verb: str, given: Any, tmp_path: Path
) -> None:
    call, zero = VERBS[verb]
    least = "from 0 on" if zero else "above 0"
    with pytest.raises(InvalidArgument) as refused:
        call(given, tmp_path)
    assert str(refused.value) == f"The tolerance must be a finite number {least}, not {given!r}."


def test_zero_can_be_measured_but_not_held(tmp_path: Path) -> None:
    for verb, (call, zero) in VERBS.items():
        if zero and verb != "evaluate":
            call(0.0, tmp_path)
        elif not zero:
            with pytest.raises(InvalidArgument, match="a finite number above 0, not 0"):
                call(0, tmp_path)
