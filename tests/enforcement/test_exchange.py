"""Where a policy violates what holds on regions, and where nobody needs to look."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec

import numpy as np
import pytest
import torch

import handrail as hr
from handrail.constraints import expand
from handrail.enforcement.candidates import Scored
from handrail.enforcement.exchange import RegionSearch
from handrail.enforcement.screen import Screen
from handrail.proof import Renewal
from tests.conftest import spaces

pytestmark = pytest.mark.skipif(find_spec("numba") is None, reason="needs numba")

RULES = [
    hr.AtLeast(0.6, 0, hr.Box([-1.0, -1.0, -1.0], [-0.5, 1.0, 1.0]), name="left"),
    hr.AtMost(0.4, 0, hr.Box([0.5, -1.0, -1.0], [1.0, 1.0, 1.0]), name="right"),
]


def obeying(hidden: list[int]) -> hr.CategoricalPolicy:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), hidden=hidden, seed=0)
    hr.enforce(policy, RULES, prove=True).raise_if_unsatisfied()
    return policy


def search_of(policy: hr.Policy) -> RegionSearch:
    return RegionSearch(expand(RULES, policy).regional, 300, Renewal(RULES), 300)


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """From now on, the regions whose samples are measured, time by time."""
    asked: list[set[int]] = []
    near = Screen.near

    def noted(
        self: Screen, policy: hr.Policy, among: Collection[int] | None = None
    ) -> dict[int, Scored]:
        asked.append(set(among or ()))
        return near(self, policy, among)

    monkeypatch.setattr(Screen, "near", noted)
    return asked


def test_what_is_proven_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, asked = obeying([100]), looked_at(monkeypatch)
    search = search_of(policy)
    said = search.of_few_cells(policy)
    found = search.find(policy, said.certificates, said.suspects, again=True)
    assert found.nothing
    assert asked == []
    fresh = hr.measure(policy, RULES).worst_violation
    assert fresh <= found.worst_violation <= 0.0
    one = {1: said.certificates[1]}
    assert search.find(policy, one, {}, again=True).nothing
    assert asked == [{0}, {0}]  # on two samples


def test_where_cells_say_it_is_violated_no_sample_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy, asked = obeying([100]), looked_at(monkeypatch)
    with torch.no_grad():
        policy.parameters[-1][1] += 3.0  # more to the right
    search = search_of(policy)
    said = search.of_few_cells(policy)
    assert set(said.certificates) == {1}
    found = search.find(policy, said.certificates, said.suspects, again=True)
    assert asked == []
    left, right = found.violated
    assert len(left)
    assert not len(right)
    assert (policy.outputs(left)[:, 0] < 0.6).all()
    assert found.worst_violation == pytest.approx(0.6 - policy.outputs(left)[:, 0].min())


def test_suspects_that_obey_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, asked = obeying([100]), looked_at(monkeypatch)
    found = search_of(policy).find(policy, {}, {0: np.array([[-0.7, 0.0, 0.0]])}, again=False)
    assert found.nothing
    assert asked == [{0, 1}]


def test_other_networks_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, asked = obeying([20, 20]), looked_at(monkeypatch)
    assert hr.enforce(policy, RULES).satisfied
    assert asked == [{0, 1}, {0, 1}]


@pytest.mark.parametrize("seed", range(3))
def test_a_search_overlooks_nothing_that_few_cells_see(seed: int) -> None:
    """Samples of as many states do, on a region of four dimensions."""
    policy = hr.CategoricalPolicy.mlp(spaces(4, 2), hidden=[300], seed=seed)
    rule = hr.AtLeast(0.9, 1, hr.Box([-2.0, -1.0, 0.1, 0.0], [2.0, 1.0, 0.2, 1.0]))
    edited = hr.edit(policy, [rule], selection=hr.Everywhere(sample=3000)).raise_if_refused()
    assert not edited.enforcement.proven  # nobody asked
    assert hr.certify(policy, [rule])[0].certified
