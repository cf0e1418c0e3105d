"""What a user may declare, what is refused and in which words, and what it expands to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail._types import Array
from handrail.constraints import Constraint, PlacedConstraint, Rows, constraint_from
from handrail.constraints.constraint import make_rows
from handrail.constraints.expansion import expand
from handrail.errors import InvalidConstraint
from handrail.policies import PROBABILITY, Quantity
from handrail.regions import Place
from tests.conftest import small_policy

HERE = hr.Points([[0.0, 0.1, 0.2], [1.0, 1.1, 1.2]])
ONE = hr.Points([0.0, 0.1, 0.2])
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        # bounds
        (
            lambda: hr.AtLeast(1.0, 0, HERE),
            "never reaches .* exactly 0 or 1.*bounded by 1. Use 0.999",
        ),
        (lambda: hr.AtLeast(0.0, 0, HERE), "bounded by 0. Use 0.001"),
        (lambda: hr.AtMost(0.0, 0, HERE), "bounded by 0. Use 0.001"),
        (lambda: hr.AtMost(1.0, 0, HERE), "bounded by 1. Use 0.999"),
        (lambda: hr.Equal(0, 0, HERE), "bounded by 0. Use 0.001"),
        (lambda: hr.Between(0.0, 0.5, 0, HERE), "bounded by 0. Use 0.001"),
        (lambda: hr.Between(0.5, 1.0, 0, HERE), "bounded by 1. Use 0.999"),
        (
            lambda: hr.AtLeast(1.5, 0, HERE),
            "probability of action 0 is always .* bound is 1.5. A continuous action is bounded",
        ),
        (lambda: hr.AtLeast(95, 0, HERE), "the bound is 95. Did you mean 0.95?"),
        (lambda: hr.AtLeast(-0.5, 0, HERE), "always between 0 and 1, but the bound is -0.5"),
        (lambda: hr.AtLeast(0.5, {0: 1, 1: -1}, ONE), None),
        (lambda: hr.AtLeast(-1.0, {0: 1, 1: -1}, ONE), "bounded by -1. Use -0.999"),
        (lambda: hr.AtLeast(NAN, 0, HERE), "The bound must be finite, but got nan"),
        (lambda: hr.AtMost(INF, 0, HERE), "The bound must be finite, but got inf"),
        (lambda: hr.AtLeast("0.9", 0, HERE), "The bound must be a number, but got '0.9'"),  # type: ignore[arg-type]
        (lambda: hr.AtLeast(True, 0, HERE), "The bound must be a number, but got True"),
        (lambda: hr.Between(0.6, 0.4, 0, HERE), "lower bound 0.6 is above the upper bound 0.4"),
        # actions
        (lambda: hr.AtLeast(0.5, -1, HERE), "Unknown action -1: actions are numbered from 0"),
        (lambda: hr.AtLeast(0.5, 1.5, HERE), "An action is an index .* but got 1.5"),  # type: ignore[arg-type]
        (lambda: hr.AtLeast(0.5, True, HERE), "An action is an index .* but got True"),
        (lambda: hr.AtLeast(0.5, "left", HERE), "An action is an index .* but got 'left'"),  # type: ignore[arg-type]
        (lambda: hr.AtLeast(0.5, [0, 2], HERE), r"An action is an index .* but got \[0, 2\]"),  # type: ignore[arg-type]
        (lambda: hr.AtLeast(0.5, {}, HERE), "action mapping is empty"),
        (lambda: hr.AtLeast(0.5, {0: NAN}, HERE), "weight of action 0 must be finite"),
        (lambda: hr.AtLeast(0.5, {0: 0.0}, HERE), "All weights are zero"),
        # places
        (lambda: hr.AtLeast(0.5, 0, [[0.0]]), "`where` must be a place .* but got list"),  # type: ignore[arg-type]
        (lambda: hr.Points([]), "Points is empty"),
        (
            lambda: hr.Points({"goal": [1.0], "at": [0.0, 0.5]}),  # type: ignore[arg-type]
            r"Points: states are numbers in a row, but got a mapping of goal, at\. Of Dict obs.*, "
            r"in the order of the space: gymnasium\.spaces\.flatten\(env\.observation_space, ",
        ),
        (
            lambda: hr.Points([{"goal": [1.0]}]),  # type: ignore[arg-type]
            r"got a mapping of goal\..* handrail\.sb3\.state_of\(model, observation\)\.",
        ),
        (lambda: hr.Points(np.empty((0, 4))), r"Points is empty \(shape \(0, 4\)\)"),
        (lambda: hr.Points([[0.0, NAN]]), "state 0 is not finite"),
        (lambda: hr.Points([[0.0, 1.0], [0.0, INF]]), "state 1 is not finite"),
        (lambda: hr.Points([[0.0, 1.0], [0.0]]), "all of the same length"),
        (lambda: hr.Points("abc"), "an array of numbers"),
        (lambda: hr.Points(3.0), "got the single number 3"),
        (lambda: hr.Points([[0, 1], [2, 3], [0, 1]]), "state 2 repeats state 0"),
        # names and priorities
        (lambda: hr.AtLeast(0.5, 0, HERE, name=7), "A name must be text, but got 7"),  # type: ignore[arg-type]
        (lambda: hr.AtLeast(0.5, 0, HERE, priority=0.0), "priority must be positive"),
        (lambda: hr.AtLeast(0.5, 0, HERE, priority=NAN), "priority must be finite"),
        # relations
        (lambda: hr.Linear([], lower=0.0), "at least one Term"),
        (lambda: hr.Linear([3], lower=0.0), "takes Term objects, but got 3"),  # type: ignore[list-item]
        (lambda: hr.Linear([hr.Term([0.0], 0)]), "needs a finite `lower` or `upper`"),
        (lambda: hr.Linear([hr.Term([0.0], 0)], lower=NAN), "`lower` must be a number"),
        (lambda: hr.Linear([hr.Term([0.0], 0)], lower=0.5, upper=0.4), "above the upper bound"),
        (lambda: hr.Linear([hr.Term([0.0], 0)], lower=1.0), "strictly between 0 and 1"),
        (lambda: hr.Linear([hr.Term([0.0], 0), hr.Term([1.0], 0)], lower=2.0), "between 0 and 2"),
        (
            lambda: hr.Linear([hr.Term([0.0], 0), hr.Term([1.0, 2.0], 0)], lower=0.5),
            r"states of different shapes: \(1,\), \(2,\)",
        ),
        (lambda: hr.Term([[0.0], [1.0]], 0), "about one state, but got 2"),
        (lambda: hr.Term([0.0], 0, weight=INF), "weight of a Term must be finite"),
        (lambda: hr.Symmetric(HERE, [-1, -1], {0: 1, 1: 0}), "one factor per coordinate"),
        (lambda: hr.Symmetric(HERE, [-1, NAN, 1], {0: 1, 1: 0}), "`mirror` is not finite"),
        (lambda: hr.Symmetric(HERE, [-1, -1, -1], {0: 1}), "must be a permutation"),
        (lambda: hr.Symmetric(HERE, [-1, -1, -1], {0: 1, 1: 0}, within=-1), r"in \[0, 1\)"),
        (lambda: hr.Symmetric(ONE, [1, 1, 1], {0: 1, 1: 0}), "its own mirror image"),
        (
            lambda: hr.Symmetric(hr.Points([[1.0], [-1.0]]), [-1], {0: 1, 1: 0}),
            "0 and 1 are mirror images of each other",
        ),
    ],
)
def test_refused_at_construction(make: Callable[[], Any], message: str | None) -> None:
    if message is None:
        make()
        return
    with pytest.raises(hr.errors.InvalidConstraint, match=message):
        make()


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (hr.AtLeast(0.5, 0, HERE, name="a"), r"single AtLeast 'a'. Write \[constraint\]"),
        ([], "empty: there is nothing to obey"),
        (iter([]), "Expected a list of constraints, a Rulebook, .* but got list_iterator"),
        (["left >= 0.9"], "Expected constraints .* but got str"),
        ([hr.AtLeast(0.5, 0, ONE), hr.AtLeast(0.5, 0, HERE)], "Two constraints are called"),
        ([hr.AtLeast(0.5, 3, HERE, name="a")], "'a' names action 3, but the policy has 3 actions"),
        (
            [hr.Linear([hr.Term([0.0, 0.0, 0.0], 5)], lower=0.5, name="sum")],
            "'sum' names action 5",
        ),
        ([hr.Symmetric(HERE, [-1] * 3, {7: 0, 0: 7}, name="m")], "'m' names action 7"),
        (
            [hr.AtLeast(0.5, 0, HERE, name="a"), hr.AtMost(0.5, 0, hr.Points([1.0]), name="b")],
            r"'b' speaks of states of shape \(1,\), but 'a' of shape \(3,\)",
        ),
        (
            [hr.AtLeast(0.5, 0, HERE, name="a"), hr.AtLeast(0.5, 0, HERE, name="b")],
            r"'b \[0\]' says exactly what 'a \[0\]' says already",
        ),
        (
            [hr.AtLeast(0.5, {0: 1, 1: 1, 2: 1}, HERE, name="all")],
            "'all' weighs all 3 actions alike",
        ),
    ],
)
def test_refused_as_a_set(constraints: Any, message: str) -> None:
    with pytest.raises(hr.errors.InvalidConstraint, match=message):
        hr.measure(small_policy(), constraints)


def test_rows_that_two_constraints_share_count_once() -> None:
    both = [hr.AtLeast(0.5, 0, HERE, name="a"), hr.AtLeast(0.5, 0, ONE, name="b")]
    expansion = expand(both, small_policy())
    assert expansion.fixed is not None
    assert expansion.fixed.labels == ("a [0]", "a [1]")
    result = hr.enforce(small_policy(), both)
    assert result.satisfied


def test_states_that_do_not_fit_the_policy_are_refused_by_name() -> None:
    rule = hr.AtLeast(0.5, 0, hr.Points([0.0, 0.0]), name="leaning right")
    with pytest.raises(
        hr.errors.ShapeMismatch, match=r"'leaning right' .* \(2,\); it observes 3 values"
    ):
        hr.measure(small_policy(n_observations=3), [rule])


def test_default_names_say_what_is_asked() -> None:
    assert hr.AtLeast(0.95, 1, ONE).name == "action 1 >= 0.95"
    assert hr.Equal(0.5, {0: 1, 2: 0.5}, ONE).name == "action 0 + 0.5·action 2 == 0.5"
    assert hr.Between(0.2, 0.4, 0, ONE).name == "0.2 <= action 0 <= 0.4"
    linear = hr.Linear([hr.Term([0.0], 0), hr.Term([1.0], 1, -1)], lower=-0.5)
    assert linear.name == "-0.5 <= 1·action 0 + -1·action 1"


def test_rows_of_point_constraints() -> None:
    policy = small_policy()
    rules = [
        hr.AtLeast(0.9, 1, HERE, name="a"),
        hr.AtMost(0.2, {0: 1.0, 2: 0.5}, ONE, name="b", priority=3.0),
    ]
    rows = expand(rules, policy).rows()
    assert rows.labels == ("a [0]", "a [1]", "b")
    np.testing.assert_array_equal(rows.lower, [0.9, 0.9, -np.inf])
    np.testing.assert_array_equal(rows.upper, [np.inf, np.inf, 0.2])
    np.testing.assert_array_equal(rows.weights, [[0, 1, 0], [0, 1, 0], [1, 0, 0.5]])
    np.testing.assert_array_equal(rows.priority, [1, 1, 3])
    p = policy.probabilities(rows.states)
    np.testing.assert_allclose(rows.values(p), [p[0, 1], p[1, 1], p[2, 0] + 0.5 * p[2, 2]])


def test_rows_of_relations() -> None:
    policy = small_policy()
    a, b = np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.5, 0.5])
    linear = hr.Linear(
        [hr.Term(a, 0), hr.Term(b, 1, -2.0), hr.Term(a, 2, 0.5)], lower=-0.1, upper=0.3, name="l"
    )
    rows = expand([hr.AtLeast(0.3, 1, HERE, name="p"), linear], policy).rows()
    pa, pb = policy.probabilities(a), policy.probabilities(b)
    values = rows.values(policy.probabilities(rows.states))
    assert values[2] == pytest.approx(pa[0] - 2.0 * pb[1] + 0.5 * pa[2], abs=1e-14)
    assert rows.curved_samples(rows.quantity).tolist() == [True, True, False, False]
    chosen = rows.take(np.array([2, 0]))
    np.testing.assert_allclose(
        chosen.values(policy.probabilities(chosen.states)), values[[2, 0]], rtol=1e-14
    )


def test_symmetric_is_one_row_per_state_and_independent_action() -> None:
    policy = small_policy(n_actions=3)
    rule = hr.Symmetric(HERE, mirror=[-1, -1, 1], swap={0: 2, 2: 0}, name="mirror")
    rows = expand([rule], policy).rows()
    assert len(rows) == 4
    values = rows.values(policy.probabilities(rows.states))
    p = policy.probabilities(HERE.states)
    q = policy.probabilities(HERE.states * [-1, -1, 1])
    expected = [p[0, 0] - q[0, 2], p[0, 1] - q[0, 1], p[1, 0] - q[1, 2], p[1, 1] - q[1, 1]]
    np.testing.assert_allclose(values, expected, atol=1e-14)
    np.testing.assert_array_equal(rows.upper, 0.0)
    # With a difference allowed, the last could add up those of all others: it has a row, too.
    loose = hr.Symmetric(HERE, mirror=[-1, -1, 1], swap={0: 2, 2: 0}, within=0.01)
    rows = expand([loose], policy).rows()
    values = rows.values(policy.probabilities(rows.states)).reshape(2, 3)
    np.testing.assert_allclose(values, p - q[:, [2, 1, 0]], atol=1e-14)
    np.testing.assert_array_equal(rows.upper, 0.01)


@final
@dataclass(frozen=True)
class Undecided(PlacedConstraint):
    """A kind of somebody's own: two actions have almost the same probability."""

    where: Place
    actions: tuple[int, int]
    within: float
    name: str = "undecided"
    priority: float = 1.0

    @property
    def quantity(self) -> Quantity:
        return PROBABILITY

    def rows_at(self, states: Array, n_actions: int) -> Rows:
        weights = np.zeros((len(states), n_actions))
        weights[:, self.actions[0]], weights[:, self.actions[1]] = 1.0, -1.0
        return make_rows(self, states, weights, np.arange(len(states)), -self.within, self.within)


BOX = hr.Box([-1.0, -1.0, 0.0], [1.0, 1.0, 0.5])


@pytest.mark.parametrize(
    "rule",
    [
        hr.AtLeast(0.3, 1, BOX, name="least", priority=2.0),
        hr.AtMost(0.3, {0: 0.5, 2: 1.0}, BOX),
        hr.Between(-0.5, 1.5, hr.Mean({1: 2.0}), BOX),
        hr.Symmetric(BOX, mirror=np.array([-1.0, 1.0, 1.0]), swap={0: 1, 1: 0}, within=0.1),
        Undecided(BOX, (0, 2), 0.2),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_a_constraint_on_a_region_is_described_and_read_again(rule: PlacedConstraint) -> None:
    again = constraint_from(json.loads(json.dumps(rule.describe())))
    assert type(again) is type(rule)
    assert (again.name, again.priority, again.quantity) == (rule.name, rule.priority, rule.quantity)
    states = BOX.cover(7)
    rows, expected = again.rows_at(states, 3), rule.rows_at(states, 3)
    for name in ("states", "weights", "lower", "upper", "priority"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(expected, name))
    assert rows.labels == expected.labels


def test_a_saved_learner_keeps_a_constraint_of_ones_own(tmp_path: Path) -> None:
    box = hr.Box([-0.1, -0.1, -0.1, -0.1], [0.1, 0.1, 0.1, 0.1])
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=[50])
    agent = hr.Reinforce("CartPole-v1", policy, [Undecided(box, (0, 1), 0.1)])
    agent.save(tmp_path / "agent.safetensors")
    again = hr.Reinforce.load(tmp_path / "agent.safetensors")
    first, second = agent.evaluate(1), again.evaluate(1)
    assert first.scores == second.scores
    assert first.violations is not None
    assert second.violations is not None
    np.testing.assert_array_equal(first.violations.values, second.violations.values)
    assert second.worst_violation is not None
    assert second.worst_violation <= 0.0


def test_a_kind_that_nobody_has_defined_is_refused() -> None:
    described = {**hr.AtLeast(0.3, 1, BOX).describe(), "kind": "Forgotten"}
    with pytest.raises(InvalidConstraint, match=r"no constraint called 'Forgotten'\. If it is one"):
        constraint_from(described)


def test_two_kinds_of_the_same_name_are_refused() -> None:
    with pytest.raises(TypeError, match="called AtLeast exists already, in handrail"):
        type("AtLeast", (Constraint,), {})
    with pytest.raises(InvalidConstraint, match="is not on a region"):
        hr.AtLeast(0.3, 1, HERE).describe()


def test_bounds_of_the_four_kinds() -> None:
    assert hr.AtLeast(0.3, 1, HERE).bounds == (0.3, np.inf)
    assert hr.AtMost(0.3, 1, HERE).bounds == (-np.inf, 0.3)
    assert hr.Equal(0.3, 1, HERE).bounds == (0.3, 0.3)
    assert hr.Between(0.2, 0.3, 1, HERE).bounds == (0.2, 0.3)
    names = [
        hr.AtLeast(0.3, 1, HERE).name,
        hr.AtMost(0.3, {0: 0.5, 2: 1.0}, HERE).name,
        hr.Equal(2.0, hr.Mean(0), HERE).name,
        hr.Between(0.2, 0.3, 1, HERE).name,
    ]
    assert names == [
        "action 1 >= 0.3",
        "0.5·action 0 + action 2 <= 0.3",
        "mean action 0 == 2",
        "0.2 <= action 1 <= 0.3",
    ]
    for kind in (hr.AtLeast, hr.AtMost, hr.Equal):
        for bound in (np.inf, -np.inf, np.nan):
            with pytest.raises(InvalidConstraint, match="The bound must be finite"):
                kind(bound, hr.Mean(0), HERE)
    with pytest.raises(InvalidConstraint, match="The bound must be finite"):
        hr.Between(-np.inf, 0.3, hr.Mean(0), HERE)


def test_symmetry_of_mean_actions_is_told_how_to_be_written() -> None:
    where = hr.Points([0.1, 0.2, 0.3])
    advice = r"Of mean actions, say what each is .* swap=\{0: Mean\(\{0: -1\}\)\}"
    with pytest.raises(InvalidConstraint, match=rf"is no key of `swap`\. {advice}"):
        hr.Symmetric(where, [-1, -1, -1], swap={hr.Mean(0): hr.Mean(0)})  # type: ignore[arg-type]
    pendulum = hr.GaussianPolicy.mlp(gym.make("Pendulum-v1"), hidden=[8])
    mirrored = hr.Symmetric(where, [-1, -1, -1], swap={}, name="mirrored")
    with pytest.raises(InvalidConstraint, match=rf"^'mirrored' is about the probab.*{advice}"):
        hr.measure(pendulum, [mirrored])
    state = np.array([0.1, 0.2, 0.3])
    terms = [hr.Term(state, hr.Mean(0)), hr.Term(-state, hr.Mean(0))]
    relation = hr.Linear(terms, lower=-0.01, upper=0.01)
    assert hr.enforce(pendulum, [relation]).satisfied
    means = pendulum.outputs(np.stack([state, -state]))[:, 0]
    assert abs(means.sum()) <= 0.01 + 1e-6
