"""Cards: every constraint in its own words, and the numbers that a slider moves."""

from __future__ import annotations

import pytest

from handrail.policies import VaryingGaussianPolicy
from handrail.report import Plane
from handrail.rulebook import bundled, load_rulebook, parse, with_settings
from handrail.runs import make_policy
from handrail.studio.cards import cards_of, names_of
from handrail.studio.sketch import shapes_of
from tests.studio.conftest import TEXT


@pytest.mark.parametrize("name", bundled())
def test_every_constraint_of_every_bundled_file_is_on_a_card(name: str) -> None:
    book = load_rulebook(name)
    cards = cards_of(book, shapes_of(book, Plane.of(book)))
    assert [one.name for one in cards] == [e["name"] for e in book.source.data["constraints"]]
    assert sorted(s for one in cards for s in one.sentences) == sorted(book.sentences)
    assert names_of(book).observations == list(book.observations)


@pytest.mark.parametrize(
    ("requirement", "bounds"),
    [
        ("right >= 0.9", [0.9]),
        ("0.3 <= right <= 0.7", [0.3, 0.7]),
        ("0.5*left + right <= 0.8", [0.8]),
        ("right >= 0.5 + 2*phi", []),
        ("left >= right", []),
    ],
)
def test_bounds_are_numbers_that_actions_are_compared_with(
    requirement: str, bounds: list[float]
) -> None:
    text = TEXT.replace("right >= 0.9", requirement)
    book = parse(text, "lean.yaml")
    card = cards_of(book, [])[0]
    assert [one.value for one in card.requirements[0].bounds] == bounds
    for one in card.requirements[0].bounds:
        assert float(requirement[one.start : one.end]) == one.value


def test_bounds_of_continuous_actions_lie_in_their_range() -> None:
    bound = cards_of(load_rulebook("pendulum"), [])[0].requirements[0].bounds[0]
    assert (bound.low, bound.value, bound.high) == (-2.0, 1.5, 2.0)


def test_the_range_of_noise_that_varies_is_in_units_of_the_action() -> None:
    assert names_of(load_rulebook("pendulum")).noises == []
    network = {"hidden": [8], "std": 0.2, "std_varies": True, "std_range": [0.5, 1.5]}
    book = with_settings(load_rulebook("pendulum"), network=network)
    assert names_of(book).noises == [pytest.approx((0.2, 0.6))]
    policy = make_policy(book, book.make_environment())
    assert isinstance(policy, VaryingGaussianPolicy)
    assert names_of(book).noises == [pytest.approx(policy.quantity.least + policy.quantity.most)]
