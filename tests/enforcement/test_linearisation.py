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
