"""Safe returns against the authors' numbers, closed forms, and each other."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import handrail as hr
from handrail._types import Array
from handrail.constraints.expansion import expand
from handrail.enforcement import program
from handrail.tangent.gradient import Gradient, take_step
from tests.conftest import Golden, sharpen, small_policy, spaces

RNG = np.random.default_rng(0)
STATES = RNG.normal(size=(40, 3))


def random_batch(n: int = 30, seed: int = 0) -> hr.Batch:
    rng = np.random.default_rng(seed)
    return hr.Batch(rng.normal(size=(n, 3)), rng.integers(3, size=n), rng.normal(size=n))


def test_inequalities_as_the_authors_solve_them(golden: Golden) -> None:
    answer = hr.safe_returns(
        golden.policy, golden.batch, golden.constraints(hr.AtLeast), golden.step_size
    )
    expected = golden["safe_returns_inequality"]
    np.testing.assert_allclose(answer.values, expected, atol=1e-6 * np.abs(expected).max())
    assert answer.satisfied
    assert answer.method == "daqp"


def test_equalities_as_the_authors_solve_them(golden: Golden) -> None:
    """Their equality branch has no step size (docs/explanation/paper.md, note 7): step size 1."""
    answer = hr.safe_returns(golden.policy, golden.batch, golden.constraints(hr.Equal), 1.0)
    np.testing.assert_allclose(answer.values, golden["safe_returns_equality_unit_step"], rtol=1e-4)
    assert answer.satisfied


def test_probabilities_after_one_real_gradient_step(golden: Golden) -> None:
    answer = hr.safe_returns(
        golden.policy, golden.batch, golden.constraints(hr.AtLeast), golden.step_size
    )
    hr.enforcement.update(golden.policy, answer)
    probabilities = golden.policy.probabilities(golden["constrained_states"])
    expected = golden["probabilities_after_inequality_update"]
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)


def test_the_update_is_the_paper_s_augmented_batch(golden: Golden) -> None:
    """(H2): the same step as on the batch with constrained pairs and safe returns appended."""
    answer = hr.safe_returns(
        golden.policy, golden.batch, golden.constraints(hr.AtLeast), golden.step_size
    )
    states = torch.tensor(np.concatenate([golden["states"], golden["constrained_states"]]))
    actions = torch.tensor(
        np.concatenate([golden["actions"], golden["constrained_actions"]]).astype(int)
    )
    returns = torch.tensor(np.concatenate([golden["normalised_returns"], answer.values]))
    logs = torch.log_softmax(golden.policy.module(states), dim=1)
    objective = (returns * logs[torch.arange(len(actions)), actions]).sum()
    gradients = torch.autograd.grad(objective, golden.policy.parameters)
    for part, expected in zip(answer.gradient.parts, gradients, strict=True):
        torch.testing.assert_close(part, expected, rtol=1e-9, atol=1e-9)


def test_prediction_is_the_first_order_effect_of_the_step() -> None:
    policy = small_policy()
    rules = [hr.AtLeast(0.5, 1, hr.Points(STATES[:4]), name="a")]
    predictions, measured = [], []
    for step_size in (1e-2, 1e-3):
        answer = hr.safe_returns(policy, random_batch(), rules, step_size)
        small = 1e-5  # take a small part of the step: the derivative of the measured change
        moved = small_policy()
        take_step(moved, answer.gradient, small * step_size)
        after = hr.measure(moved, rules)
        change = dict(zip(after.labels, after.values, strict=True))
        measured.append(
            [(change[n] - b) / small for n, b in zip(answer.labels, answer.before, strict=True)]
        )
        predictions.append(answer.predicted - answer.before)
    np.testing.assert_allclose(predictions, measured, atol=1e-3)


@pytest.mark.parametrize("objective", ["returns", "parameters"])
def test_mixed_program_meets_every_row(objective: Literal["returns", "parameters"]) -> None:
    policy = small_policy(sharpness=4.0)
    rules = [
        hr.AtLeast(0.7, 0, hr.Points(STATES[:5]), name="at least"),
        hr.AtMost(0.1, 2, hr.Points(STATES[5:10]), name="at most"),
        hr.Equal(0.4, 1, hr.Points(STATES[10:13]), name="equal"),
        hr.Between(0.3, 0.35, 2, hr.Points(STATES[13:16]), name="between"),
        hr.AtLeast(0.9, {0: 1, 1: 1}, hr.Points(STATES[16]), name="either"),
        hr.Symmetric(hr.Points(STATES[17:19]), [-1, -1, 1], {0: 1, 1: 0}, name="mirror"),
        hr.Linear([hr.Term(STATES[19], 0), hr.Term(STATES[20], 1, -1)], lower=0.1, name="more"),
    ]
    answer = hr.safe_returns(policy, random_batch(), rules, 1e-2, objective=objective)
    assert answer.satisfied
    assert answer.worst_violation <= 1e-10
    by_name = dict(zip(answer.labels, answer.predicted, strict=True))
    for k in range(3):
        assert by_name[f"equal [{k}]"] == pytest.approx(0.4, abs=1e-10)
    assert by_name["mirror [0]"] == pytest.approx(0.0, abs=1e-10)


def test_each_objective_is_the_least_of_its_kind() -> None:
    policy = small_policy(sharpness=2.0)
    rules = [
        hr.AtLeast(0.8, 0, hr.Points(STATES[:6]), name="a"),
        hr.AtLeast(0.8, 1, hr.Points(STATES[6:12]), name="b"),
    ]
    batch = random_batch()
    answers = {
        name: hr.safe_returns(policy, batch, rules, 1e-2, objective=name)
        for name in ("returns", "parameters")
    }
    unconstrained = hr.safe_returns(
        policy, batch, [hr.AtLeast(1e-9, 0, hr.Points(STATES[0]), name="free")], 1e-2
    ).gradient

    def size(answer: hr.enforcement.SafeReturns) -> tuple[float, float]:
        pairs = zip(answer.gradient.parts, unconstrained.parts, strict=True)
        change = Gradient(tuple(part - free for part, free in pairs))
        return float((answer.values**2).sum()), change.norm()

    returns, parameters = size(answers["returns"]), size(answers["parameters"])
    assert returns[0] < 0.999 * parameters[0]
    assert parameters[1] < 0.999 * returns[1]
    # Least change: only active rows have a return.
    zero = np.flatnonzero(answers["parameters"].multipliers == 0.0)
    np.testing.assert_array_equal(answers["parameters"].values[zero], 0.0)


def test_one_row_in_closed_form() -> None:
    """One row: G = (bound - c - α J g) π / (α K)."""
    policy, state, step_size = small_policy(), STATES[:1], 1e-2
    batch = random_batch()
    answer = hr.safe_returns(
        policy, batch, [hr.AtLeast(0.9, 1, hr.Points(state), name="a")], step_size
    )
    p = policy.probabilities(state)[0, 1]
    drift = hr.predict_change(policy, batch, state, step_size)[0, 1]
    kernel = hr.tangent.tangent_kernel(policy, state)[0, 1, 0, 1]
    assert answer.values[0] == pytest.approx(
        (0.9 - p - drift) * p / (step_size * kernel), rel=1e-10
    )
    assert answer.active == ("a",)
    assert answer.multipliers[0] > 0.0


def test_satisfied_constraints_need_no_returns() -> None:
    rules = [hr.AtLeast(0.01, 1, hr.Points(STATES[:5]), name="easy")]
    answer = hr.safe_returns(small_policy(), random_batch(), rules, 1e-6)
    np.testing.assert_array_equal(answer.values, 0.0)
    assert answer.active == ()
    assert answer.satisfied


@pytest.mark.parametrize("objective", ["returns", "parameters"])
@pytest.mark.parametrize("soft", [False, True])
def test_working_set_finds_the_answer_of_the_whole_program(
    objective: Literal["returns", "parameters"], soft: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = small_policy(sharpness=3.0)
    states = np.random.default_rng(2).normal(size=(120, 3))
    right = states[:, 0] + states[:, 1] > 0.3
    rules = [
        hr.AtLeast(0.5, 0, hr.Points(states[right]), name="right"),
        hr.AtLeast(0.5, 1, hr.Points(states[~right & (states[:, 2] < 0)]), name="left"),
    ]
    whole = hr.safe_returns(policy, random_batch(), rules, 1e-2, objective, soft)
    monkeypatch.setattr(program.LeastReturns, "all_at_once", 10)
    monkeypatch.setattr(program.LeastChange, "all_at_once", 10)
    monkeypatch.setattr(program, "_FIRST_ROUND", 7)
    parts = hr.safe_returns(policy, random_batch(), rules, 1e-2, objective, soft)
    scale = np.abs(whole.values).max()
    np.testing.assert_allclose(parts.values, whole.values, atol=1e-6 * scale)
    np.testing.assert_allclose(parts.predicted, whole.predicted, atol=1e-6)
    assert set(parts.active) == set(whole.active)


def test_a_saturated_state_does_not_blow_up_the_program() -> None:
    """π of 1e-13 that must be at most 0.05: satisfied, whatever the condition of the kernel."""
    policy = small_policy(sharpness=60.0)
    p = policy.probabilities(STATES)
    saturated = [i for i in range(len(STATES)) if p[i].min() < 1e-9][:3]
    assert saturated
    rules: list[hr.Constraint] = [
        hr.AtMost(0.05, int(p[i].argmin()), hr.Points(STATES[i]), name=f"s{i}") for i in saturated
    ]
    moderate = [i for i in range(len(STATES)) if p[i].max() < 0.9][:3]
    rules += [hr.AtLeast(0.6, 0, hr.Points(STATES[i]), name=f"m{i}") for i in moderate]
    answer = hr.safe_returns(policy, random_batch(), rules, 1e-3)
    assert answer.satisfied
    assert np.isfinite(answer.values).all()


def contradiction(distance: float) -> list[hr.Constraint]:
    here, there = np.zeros(3), np.array([distance, 0.0, 0.0])
    return [
        hr.AtLeast(0.9, 0, hr.Points(here), name="push left here"),
        hr.AtMost(0.1, 0, hr.Points(there), name="push right there"),
        hr.AtLeast(0.3, 1, hr.Points(STATES[:3]), name="elsewhere"),
    ]


@pytest.mark.parametrize("distance", [0.0, 1e-9, 1e-6, 1e-4])
def test_contradictions_are_named(distance: float) -> None:
    with pytest.raises(hr.errors.InfeasibleConstraints) as raised:
        hr.safe_returns(small_policy(), random_batch(), contradiction(distance), 1e-2)
    text = str(raised.value)
    assert "'push left here' and 'push right there'" in text
    assert "elsewhere" not in text
    assert "soft=True" in text
    if distance:
        assert f"ask opposite things {distance:.3g} apart" in text
    else:
        assert "do not exist together at the same state" in text


def test_opposite_wishes_far_enough_apart_are_no_contradiction() -> None:
    answer = hr.safe_returns(small_policy(), random_batch(), contradiction(1.0), 1e-2)
    assert answer.satisfied


def test_probabilities_that_exceed_one_together_are_named() -> None:
    rules: list[hr.Constraint] = [
        hr.AtLeast(0.6, 0, hr.Points(STATES[0]), name="a"),
        hr.AtLeast(0.6, 1, hr.Points(STATES[0]), name="b"),
        hr.AtLeast(0.1, 2, hr.Points(STATES[0]), name="c"),
    ]
    with pytest.raises(
        hr.errors.InfeasibleConstraints, match="'a' and 'b' ask for probabilities that do"
    ):
        hr.safe_returns(small_policy(), random_batch(), rules, 1e-2)


def test_a_baseline_offsets_the_batch_and_never_the_safe_returns() -> None:
    """The remark on other policy-gradient methods: whatever is subtracted, the bounds are met."""
    policy, whole = small_policy(), random_batch()
    rules = [hr.Equal(0.5, 1, hr.Points(STATES[:4]))]
    found = []
    for baseline in (0.0, 5.0):
        batch = hr.Batch(whole.states, whole.actions, np.asarray(whole.returns) - baseline)
        returns = hr.safe_returns(policy, batch, rules, 1e-2)
        np.testing.assert_allclose(returns.predicted, 0.5, atol=1e-9)
        found.append(returns.values)
    # They make up for what the baseline changes, each in its own way: no constant is subtracted.
    assert np.ptp(found[0] - found[1]) > 1.0


def test_soft_lets_the_cheaper_constraint_give_way() -> None:
    here = hr.Points(np.zeros(3))
    for dear in (0, 1):
        priorities = [10.0 if i == dear else 1.0 for i in range(2)]
        rules: list[hr.Constraint] = [
            hr.AtLeast(0.9, 0, here, name="up", priority=priorities[0]),
            hr.AtMost(0.2, 0, here, name="down", priority=priorities[1]),
        ]
        answer = hr.safe_returns(small_policy(), random_batch(), rules, 1e-2, soft=True)
        assert not answer.satisfied
        assert answer.predicted[0] == pytest.approx((0.9, 0.2)[dear], abs=1e-7)
        assert answer.worst_violation == pytest.approx(0.7, abs=1e-7)


def test_soft_equals_hard_where_nothing_contradicts(golden: Golden) -> None:
    rules = golden.constraints(hr.AtLeast)
    hard = hr.safe_returns(golden.policy, golden.batch, rules, golden.step_size)
    soft = hr.safe_returns(golden.policy, golden.batch, rules, golden.step_size, soft=True)
    np.testing.assert_allclose(soft.values, hard.values, atol=1e-6 * np.abs(hard.values).max())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step_size": 0.0}, "step size must be positive and finite, but got 0.0"),
        ({"step_size": float("nan")}, "step size must be positive"),
        ({"step_size": 0.1, "objective": "weights"}, "Unknown objective 'weights'"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    rules = [hr.AtLeast(0.5, 0, hr.Points(STATES[0]))]
    with pytest.raises(hr.errors.InvalidArgument, match=message):
        hr.safe_returns(small_policy(), random_batch(), rules, **arguments)


def test_answers_do_not_depend_on_the_order_of_rows(golden: Golden) -> None:
    rules = golden.constraints(hr.AtLeast)

    def by_name(order: list[int]) -> dict[str, float]:
        answer = hr.safe_returns(
            golden.policy, golden.batch, [rules[i] for i in order], golden.step_size
        )
        return dict(zip(answer.labels, answer.values, strict=True))

    n = len(rules)
    first, second = by_name(list(range(n))), by_name(list(RNG.permutation(n)))
    values: Array = np.array([first[k] for k in first])
    np.testing.assert_allclose([second[k] for k in first], values, atol=1e-8 * np.abs(values).max())


@st.composite
def policies_and_rules(draw: st.DrawFn) -> tuple[hr.CategoricalPolicy, list[hr.Constraint]]:
    """Wide networks, saturated or not; states in clusters; bounds that another policy meets."""
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    n = draw(st.one_of(st.integers(1, 40), st.integers(41, 300)))
    sharpness = draw(st.sampled_from([1.0, 5.0, 10.0]))
    policy = hr.CategoricalPolicy.mlp(spaces(3, 3), hidden=[512], seed=seed)
    teacher = hr.CategoricalPolicy.mlp(spaces(3, 3), hidden=[16], seed=seed + 1)
    sharpen(policy, sharpness)
    states = rng.normal(size=(n, 3))
    near = rng.random(n) < 0.2
    states[near] = states[rng.integers(n, size=near.sum())] + 1e-4 * rng.normal(
        size=(near.sum(), 3)
    )
    wanted = teacher.probabilities(states)
    rules: list[hr.Constraint] = []
    for i, (state, p) in enumerate(zip(states, wanted, strict=True)):
        action = int(rng.integers(3))
        kind = (hr.AtLeast, hr.AtMost)[int(rng.integers(2))]
        room = 0.95 if kind is hr.AtLeast else 1.05
        rules.append(kind(float(room * p[action]), action, hr.Points(state), name=f"r{i}"))
    return policy, rules


@settings(max_examples=60, deadline=None)
@given(policies_and_rules())
def test_kkt_conditions_of_the_paper_s_program(
    case: tuple[hr.CategoricalPolicy, list[hr.Constraint]],
) -> None:
    """min Σ G² within bounds: G = (α K D)ᵀ λ, λ ≥ 0 below and ≤ 0 above, and only at the bound."""
    policy, rules = case
    batch, step_size = random_batch(), 1e-3
    answer = hr.safe_returns(policy, batch, rules, step_size)
    rows = expand(rules, policy).rows()
    kernel = hr.tangent.tangent_kernel(policy, rows.states)
    action = rows.weights.argmax(axis=1)
    i = np.arange(len(rows))
    picked = kernel[i[:, None], action[:, None], i[None], action[None]]
    matrix = step_size * picked / answer.before
    drift = hr.predict_change(policy, batch, rows.states, step_size)[i, action]
    predicted = answer.before + drift + matrix @ answer.values
    size = 1e-8 + 1e-12 * np.linalg.norm(matrix, axis=1) * np.linalg.norm(answer.values)
    assert np.all(rows.violations(predicted) <= size)
    np.testing.assert_allclose(predicted, answer.predicted, atol=size.max())
    terms = np.abs(matrix.T * answer.multipliers).sum(axis=1)
    residual = np.abs(answer.values - matrix.T @ answer.multipliers)
    assert np.all(residual <= 1e-7 * (terms + np.linalg.norm(answer.values) + 1e-300))
    below, above = answer.multipliers > 0.0, answer.multipliers < 0.0
    np.testing.assert_allclose(predicted[below], rows.lower[below], atol=10 * size.max())
    np.testing.assert_allclose(predicted[above], rows.upper[above], atol=10 * size.max())
