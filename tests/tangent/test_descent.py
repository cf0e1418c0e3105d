"""Down an energy, as a learner's optimiser would go."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import handrail as hr
from handrail.constraints import Rows, expand
from handrail.enforcement import Targets
from handrail.tangent import Gradient, descend
from tests.conftest import spaces


def rows_of(rules: list[hr.Constraint], policy: hr.Policy) -> Rows:
    rows = expand(rules, policy).fixed
    assert rows is not None
    return rows


def two_sides(policy: hr.Policy, apart: float) -> Rows:
    places = ((1.0, 0.0), (1.0, apart))
    return rows_of(
        [hr.AtLeast(0.9, a, hr.Points(places[a]), name=f"side {a}") for a in range(2)], policy
    )


def test_it_ends_where_everything_is_on_target() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), [32], seed=0)
    rows = two_sides(policy, apart=1.0)
    assert rows.violations_of(policy).max() > 0.3
    assert descend(policy, Targets(rows, 1e-6, policy.coordinates).energy)
    assert rows.violations_of(policy).max() <= 0.0


def test_it_gives_up_soon_where_nothing_is_gained() -> None:
    """Opposite things at one state: what is left is as far from the one as from the other."""
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), [32], seed=0)
    rows = two_sides(policy, apart=0.0)
    targets, asked = Targets(rows, 1e-6, policy.coordinates), []

    def counted(policy: hr.Policy) -> tuple[float, Gradient | None]:
        energy, gradient = targets.energy(policy)
        asked.append(energy)
        return energy, gradient

    assert descend(policy, counted)
    assert len(asked) <= 801  # of 2,000
    assert rows.violations_of(policy) == pytest.approx([0.4, 0.4], abs=0.01)


def test_what_a_learner_left_in_its_gradients_stays() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), [32], seed=0)
    kept = [torch.full_like(p, 3.0) for p in policy.parameters]
    for parameter, grad in zip(policy.parameters, kept, strict=True):
        parameter.grad = grad
    rows = two_sides(policy, apart=1.0)
    descend(policy, Targets(rows, 1e-6, policy.coordinates).energy)
    for parameter, grad in zip(policy.parameters, kept, strict=True):
        assert parameter.grad is grad
        assert (grad == 3.0).all()


def test_what_overflows_is_no_policy_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked for it goes back."""
    module = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    policy = hr.CategoricalPolicy(module)
    monkeypatch.setattr("handrail.tangent.descent._RATE", 1e200)
    rows = rows_of(
        [hr.AtLeast(0.9, a, hr.Points([float(a)]), name=f"p{a}") for a in range(2)], policy
    )
    assert not descend(policy, Targets(rows, 1e-6, policy.coordinates).energy)
