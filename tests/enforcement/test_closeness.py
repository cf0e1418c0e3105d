"""Held once, and closely: what holding moved elsewhere is taken back, step by step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import handrail as hr
from handrail.constraints import Tolerance, expand
from handrail.enforcement.closeness import hold_by_fences, hold_closely
from handrail.enforcement.elsewhere import Elsewhere
from handrail.enforcement.enforcer import Enforcer, RegionEnforcer, make_enforcer
from handrail.enforcement.exchange import Found
from handrail.enforcement.rail import Rail
from handrail.enforcement.references import References
from handrail.settings import Everywhere
from tests.conftest import spaces

BOX = hr.Box([0.5, 0.5], [0.7, 0.7])
RULE = hr.AtLeast(0.9, 1, BOX, name="one side")


def fresh() -> hr.CategoricalPolicy:
    return hr.CategoricalPolicy.mlp(spaces(2, 2), [256], seed=0)


def enforcer(policy: hr.Policy, prove: bool = False) -> Enforcer:
    return make_enforcer(expand([RULE], policy), Everywhere(prove=prove), policy, Tolerance(None))


def around() -> References:
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (600, 2))
    return References(states[np.abs(states - 0.6).max(axis=1) > 0.3], "given")


def mean_change(policy: hr.CategoricalPolicy) -> float:
    states = around().states
    change = policy.probabilities(states) - fresh().probabilities(states)
    return float(np.abs(change).max(axis=1).mean())


def test_closer_than_the_least_way_at_once_and_by_its_reach() -> None:
    at_once = fresh()
    enforcer(at_once).hold(at_once, Elsewhere(around(), 1e-4)).raise_if_unsatisfied()
    closely = {}
    for reach in (1e-2, 1e-4, 1e-5):
        policy = fresh()
        held = hold_closely(policy, around(), enforcer(policy), reach)
        assert held.raise_if_unsatisfied().worst_violation <= 0.0
        assert hr.measure(policy, [RULE]).worst_violation <= 0.0
        closely[reach] = mean_change(policy)
    assert closely[1e-5] < closely[1e-4] < closely[1e-2]
    assert closely[1e-5] < 0.8 * mean_change(at_once)


def test_with_a_proof_of_the_last_policy_only(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs: list[Found] = []
    prove = RegionEnforcer._prove

    def counted(
        self: RegionEnforcer, policy: hr.Policy, known: Mapping[int, hr.Certificate]
    ) -> Found:
        proofs.append(prove(self, policy, known))
        return proofs[-1]

    monkeypatch.setattr(RegionEnforcer, "_prove", counted)
    policy = fresh()
    proving = enforcer(policy, prove=True)
    searching = proving.without_proof()
    assert searching is not proving
    assert searching.without_proof() is searching
    held = hold_closely(policy, around(), proving, 1e-4).raise_if_unsatisfied()
    assert held.proven
    assert proofs  # and few: taking back is dozens of holdings, each followed by a search alone
    assert len(proofs) <= 3 < held.iterations
    assert hr.certify(policy, [RULE])[0].certified
    assert mean_change(policy) < 0.2


def test_it_ends_when_it_has_taken_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    in_full, in_short = fresh(), fresh()
    hold_closely(in_full, around(), enforcer(in_full), 1e-4).raise_if_unsatisfied()
    monkeypatch.setattr("handrail.enforcement.closeness._MAX_EFFORT", 2)
    held = hold_closely(in_short, around(), enforcer(in_short), 1e-4).raise_if_unsatisfied()
    assert held.worst_violation <= 0.0
    assert mean_change(in_full) < mean_change(in_short)


def test_what_cannot_be_held_is_left_as_it_was() -> None:
    policy = fresh()
    before = [one.detach().clone() for one in policy.parameters]
    rules = [RULE, hr.AtMost(0.1, 1, BOX, name="the opposite")]
    chosen = make_enforcer(expand(rules, policy), Everywhere(), policy, Tolerance(None))
    held = hold_closely(policy, around(), chosen, 1e-4)
    assert not held.satisfied
    assert "the opposite" in held.reason
    assert held.parameter_change == 0.0
    assert all(map(torch.equal, before, policy.parameters))


def test_a_rail_holds_closely_before_experience_and_at_once_afterwards() -> None:
    policy, closely = fresh(), fresh()
    rail = Rail(enforcer(policy), [RULE], around(), "auto")
    first = rail.hold(policy).raise_if_unsatisfied()
    hold_closely(closely, around(), enforcer(closely), 1e-5)
    assert all(map(torch.equal, policy.parameters, closely.parameters))
    assert first.influence is not None
    assert first.influence.mean_change == pytest.approx(mean_change(policy), rel=1e-9)
    for _ in range(2):  # after the first rollout it is held anew, as closely
        rail.learned_from(around().states[:40])
        with torch.no_grad():
            policy.parameters[-1].add_(torch.tensor([0.2, -0.2]))
        again = rail.hold(policy).raise_if_unsatisfied()
    assert 0 < again.iterations < first.iterations / 4


class _Gate(nn.Module):
    """Layers that are not looked into; the first is switched off below 0."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(1, 4).double(), nn.Linear(4, 2).double()
        with torch.no_grad():
            self.first.weight.abs_()
            self.first.bias.zero_()

    def forward(self, states: Tensor) -> Tensor:
        logits: Tensor = self.last(torch.relu(self.first(states)))
        return logits


def test_a_layer_that_is_switched_off_where_a_constraint_speaks() -> None:
    """There it has no gradient to be known by, and at the references it has."""
    policy = hr.CategoricalPolicy(_Gate())
    rule = hr.AtLeast(0.9, action=1, where=hr.Points([[-1.0]]), name="below 0")
    references = np.linspace(0.5, 3.0, 20)[:, None]
    result = hr.enforce(policy, [rule], references=references, reach=0.0)
    assert result.satisfied
    assert policy.outputs([[-1.0]])[0, 1] >= 0.9 - 1e-6


# --- fences ---------------------------------------------------------------------------------------


def untaught(n_actions: int = 2, last: float = 0.01) -> hr.CategoricalPolicy:
    """Two layers, the last weights small, as Stable-Baselines3 begins."""
    policy = hr.CategoricalPolicy.mlp(spaces(2, n_actions), [64, 64], "tanh", seed=0)
    with torch.no_grad():
        for parameter in policy.parameters[-2:]:
            parameter.mul_(last)
    return policy


def fenced(policy: hr.CategoricalPolicy, *rules: hr.Constraint) -> hr.Enforcement | None:
    expansion = expand(rules, policy)
    chosen = make_enforcer(expansion, Everywhere(), policy, Tolerance(None))
    found = hold_by_fences(policy, around(), chosen, expansion, 1e-6)
    return None if found is None else found[0]


def test_a_fence_holds_a_box_and_moves_nothing_elsewhere() -> None:
    policy, before = untaught(), untaught()
    held = fenced(policy, RULE)
    assert held is not None
    assert held.satisfied
    assert held.fences == 1
    assert "by 1 fence in the network" in str(held)
    assert "fences in the network" in held._repr_html_()
    states = around().states
    change = np.abs(policy.probabilities(states) - before.probabilities(states))
    assert change.max() < 0.005
    # What linearising comes to on the same network, as closely as it can.
    bent = untaught()
    hold_closely(bent, around(), enforcer(bent), 1e-6).raise_if_unsatisfied()
    bending = np.abs(bent.probabilities(states) - before.probabilities(states))
    assert change.mean() < 0.1 * bending.mean()
    certificate = hr.certify(policy, [RULE])[0]
    assert certificate.certified
    # A little inside: 1 in log-odds beyond the bound at the state that is furthest from it.
    assert certificate.lowest == pytest.approx(1 / (1 + 1 / (9 * np.e)), abs=0.003)


def test_what_is_not_asked_for_keeps_its_proportions_inside_a_fence() -> None:
    policy, before = untaught(4, last=1.0), untaught(4, last=1.0)
    held = fenced(policy, hr.AtMost(0.05, 3, BOX, name="not up"))
    assert held is not None
    inside = BOX.spread(200)
    now, then = policy.probabilities(inside), before.probabilities(inside)
    assert (now[:, 3] <= 0.05).all()
    ratio, expected = now[:, 0] / now[:, 1], then[:, 0] / then[:, 1]
    assert np.abs(np.log(ratio / expected)).max() < 0.1


def test_several_fences_and_what_holds_already_needs_none() -> None:
    policy = untaught()
    other = hr.AtLeast(0.9, 0, hr.Box([-0.7, -0.7], [-0.5, -0.5]), name="other side")
    held = fenced(policy, RULE, other, hr.AtLeast(0.1, 1, hr.Box([-0.2, 0.3], [0, 0.4]), name="is"))
    assert held is not None
    assert held.fences == 2
    assert hr.measure(policy, [RULE, other]).worst_violation <= 0.0


WIDE = hr.Box([-0.9, -0.9], [0.9, 0.9])


def sloping() -> hr.CategoricalPolicy:
    """Its log-odds are those of a line, as a learner's are."""
    policy = untaught(last=0.0)
    with torch.no_grad():
        first, second, last = policy.parameters[0], policy.parameters[2], policy.parameters[4]
        for one, size in ((first, 0.5), (second, 0.5), (last, 12.0)):
            one[:, 0] = 0.0
            one[0, :] = 0.0
            one[0, 0] = size
    return policy


NO_FENCE: list[tuple[str, hr.CategoricalPolicy, list[hr.Constraint]]] = [
    ("no box", untaught(), [hr.AtLeast(0.9, 1, hr.Ball([0.6, 0.6], 0.1), name="ball")]),
    ("two bounds", untaught(), [hr.Between(0.8, 0.9, 1, BOX, name="between")]),
    ("one layer", fresh(), [RULE]),
    ("contradictory", untaught(), [RULE, hr.AtMost(0.1, 1, BOX, name="the opposite")]),
    ("already so", untaught(), [hr.AtLeast(0.1, 1, BOX, name="already so")]),
    # Units of a network whose outputs hang on them all mean something.
    ("its units mean something", untaught(last=3.0), [RULE]),
    # What a box that is nearly all right is pushed by would be a theft from most of it.
    ("nearly obeys", untaught(), [hr.AtMost(0.502, 1, WIDE, name="nearly")]),
    ("has learned", sloping(), [hr.AtLeast(0.3, 1, WIDE, name="not everywhere")]),
]


@pytest.mark.parametrize(
    ("policy", "rules"), [one[1:] for one in NO_FENCE], ids=[one[0] for one in NO_FENCE]
)
def test_where_there_is_no_fence_nothing_is_touched(
    policy: hr.CategoricalPolicy, rules: list[hr.Constraint]
) -> None:
    before = [one.detach().clone() for one in policy.parameters]
    assert fenced(policy, *rules) is None
    assert all(map(torch.equal, before, policy.parameters))


def test_points_beside_a_fence_are_held_as_closely() -> None:
    policy, before = untaught(), untaught()
    point = hr.AtLeast(0.6, 0, hr.Points([[-0.9, 0.9]]), name="point")
    held = fenced(policy, RULE, point)
    assert held is not None
    assert held.fences == 1
    measured = hr.measure(policy, [RULE, point])
    assert measured.worst_violation <= 1e-6
    states = around().states
    bent = untaught()
    rules = [RULE, point]
    both = make_enforcer(expand(rules, bent), Everywhere(), bent, Tolerance(None))
    hold_closely(bent, around(), both, 1e-6).raise_if_unsatisfied()

    def moved(one: hr.CategoricalPolicy) -> float:
        return float(np.abs(one.probabilities(states) - before.probabilities(states)).mean())

    assert moved(policy) < 0.5 * moved(bent)


def test_where_everything_is_inside_there_are_no_references_to_ask() -> None:
    everywhere = hr.AtLeast(0.9, 1, hr.Box([-0.97, -0.97], [0.97, 0.97]), name="everywhere")
    policy = untaught()
    expansion = expand([everywhere], policy)
    chosen = make_enforcer(expansion, Everywhere(), policy, Tolerance(None))
    inside = References(np.random.default_rng(0).uniform(-0.98, 0.98, (50, 2)), "given")
    found = hold_by_fences(policy, inside, chosen, expansion, 1e-6)
    assert found is not None
    assert hr.measure(policy, [everywhere]).worst_violation <= 0.0
