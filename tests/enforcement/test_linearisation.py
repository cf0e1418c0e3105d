"""Targets of rows: how far a policy is from them, and the way there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import handrail as hr
from handrail.constraints import Rows, expand
from handrail.enforcement import Targets
from tests.conftest import spaces


def rows_of(rules: list[hr.Constraint], policy: hr.Policy) -> Rows:
    rows = expand(rules, policy).fixed
    assert rows is not None
    return rows


def test_the_gradient() -> None:
    """Against autograd on what the docs say; bounds count a tenth of the tolerance inside."""
    states = np.random.default_rng(0).normal(size=(5, 4))
    rising, falling, holds, left, right = states
    policy = hr.CategoricalPolicy.mlp(spaces(4, 2), [32], seed=0)
    rows = rows_of(
        [
            hr.AtLeast(0.95, 0, hr.Points(rising), name="must rise"),
            hr.AtMost(0.3, 1, hr.Points(falling), name="must fall"),
            hr.AtLeast(0.01, 1, hr.Points(holds), name="holds"),
            hr.Linear([hr.Term(left, 1), hr.Term(right, 1, -1.0)], lower=0.5, name="no log-odds"),
        ],
        policy,
    )
    energy, found = Targets(rows, 1e-5, policy.coordinates).energy(policy)
    assert found is not None
    acts = torch.softmax(policy.module(torch.tensor(states)), dim=1)
    short = [
        torch.logit(torch.tensor(0.95 + 1e-6, dtype=torch.float64)) - torch.logit(acts[0, 0]),
        torch.logit(acts[1, 1]) - torch.logit(torch.tensor(0.3 - 1e-6, dtype=torch.float64)),
        0.5 + 1e-6 - (acts[3, 1] - acts[4, 1]),
    ]
    assert all(one > 0.1 for one in short)
    half = 0.5 * torch.stack(short).square().sum()
    assert energy == pytest.approx(half.item())
    expected = torch.autograd.grad(half, policy.parameters)
    for ours, theirs in zip(found.parts, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_no_gradient_where_everything_holds() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(4, 2), [32], seed=0)
    rows = rows_of([hr.AtLeast(0.01, 1, hr.Points(np.zeros(4)), name="holds")], policy)
    assert Targets(rows, 1e-5, policy.coordinates).energy(policy) == (0.0, None)


def test_targets_are_kept_until_anything_of_them_is_another() -> None:
    """While a Gaussian learns how noisy it is, how far inside they lie changes every time."""
    policy = hr.CategoricalPolicy.mlp(spaces(4, 2), [32], seed=0)
    rows = rows_of([hr.AtLeast(0.9, 1, hr.Points(np.zeros((1, 4))), name="right")], policy)
    here = policy.coordinates

    def shortfall(tolerance: float, inside: float | None) -> float:
        further = None if inside is None else np.array([inside])
        found = Targets.of(rows, tolerance, here, further)
        assert found is Targets.of(rows, tolerance, here, further)
        return found.shortfall(found.position(rows.outputs_of(policy)))

    plain, near, far = (shortfall(1e-6, inside) for inside in (None, 0.2, 0.5))
    assert near - plain == pytest.approx(0.2)
    assert far - plain == pytest.approx(0.5)
    assert shortfall(1e-6, None) == plain
    assert shortfall(1e-3, 0.5) > far
