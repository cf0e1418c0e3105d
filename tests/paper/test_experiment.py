"""The file of experiments: what it says, and what it cannot mean."""

from __future__ import annotations

import numpy as np
import pytest

from handrail._types import Array
from handrail.constraints import PlacedConstraint
from handrail.errors import InvalidRulebook
from handrail.regions import Region
from paper.exhibits import EXHIBITS
from paper.experiment import (
    Limits,
    Prediction,
    StateChoice,
    Training,
    UpdateTimes,
    constraint_file,
    experiments,
    parse,
)
from tests.support.paper import TEXT, only


def test_every_experiment_can_be_made_and_is_shown() -> None:
    names = {exhibit.name for exhibit in EXHIBITS}
    assert len(names) == len(EXHIBITS)
    for one in experiments():
        assert set(one.figures) <= names, one.name
        usual = 50 if one.name.startswith("spread_") else 10
        assert one.seeds == (1 if isinstance(one.study, UpdateTimes) else usual), one.name
        if isinstance(one.study, Training | Prediction | StateChoice):
            book = one.study.rulebook(seed=3)
            assert (book.settings.seed, book.settings.episodes) == (3, one.study.episodes)
            assert book.settings.network.hidden == [5000], one.name


def sub_regions(name: str) -> list[Region]:
    """Regions of a file's constraints, sub-regions one by one."""
    placed = (one for one in constraint_file(name).constraints if isinstance(one, PlacedConstraint))
    return [part for one in placed if one.region is not None for part in one.region.parts]


def test_the_table_cut_along_the_track_is_the_table() -> None:
    """Each region of the paper in five parts of a metre, end to end."""
    whole, parts = sub_regions("cartpole_regions"), sub_regions("cartpole_regions_cut")
    assert len(parts) == 5 * len(whole)
    for number, part in enumerate(parts):
        low, high = part.bounds
        start = -2.5 + number % 5
        assert (low[0], high[0]) == (start, start + 1.0)
        states = part.grid(4)
        assert whole[number // 5].contains(states).all()
        assert part.volume == pytest.approx(whole[number // 5].volume / 5.0)


def test_other_cuts_of_the_track() -> None:
    """The two sides alike mirror each other; three parts a side have the same strips as five."""
    left, right = np.split(
        np.array([one.corners for one in sub_regions("cartpole_track_mirrored")]), 2
    )
    for one, other in zip(left, right[::-1], strict=True):
        assert_same_states(one, -other)
    (one, *_), (other, *_) = sub_regions("cartpole_track"), sub_regions("cartpole_track_thirds")
    assert_same_states(one.corners[:, 2:], other.corners[:, 2:])


def assert_same_states(one: Array, other: Array) -> None:
    first, second = (np.unique(np.round(states, 9) + 0.0, axis=0) for states in (one, other))
    np.testing.assert_allclose(first, second)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds: 2", "seeds: 0", "small.yaml, line 2, seeds: expected greater than or equal to 1."),
        (
            "label: narrow",
            "lable: narrow",
            "small.yaml, line 4, experiments.narrow.label: Field required.",
        ),
        (
            "kind: training",
            "kind: nap",
            "small.yaml, line 8, experiments.narrow.study: Input tag 'nap' found using 'kind' does "
            "not match any of the expected tags: 'training', 'prediction', 'state_choice', "
            "'update_times', 'double_q_learning'.",
        ),
        (
            "episodes: 6",
            "episodes: six",
            "small.yaml, line 11, experiments.narrow.study.episodes: expected a integer.",
        ),
        ("figures: [cartpole]", "figures: [", "small.yaml, line 9: this is not YAML: "),
        ("narrow:", "narrow: {}\n  narrow:", "line 5: the key 'narrow' is already on line 4."),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidRulebook) as caught:
        parse(TEXT.replace(old, new), "small.yaml")
    assert message in str(caught.value)


def test_what_is_shared_is_taken_over_and_changed() -> None:
    text = """
seeds: 3
shared:
  - &run {kind: training, constraints: cartpole, episodes: 9}
experiments:
  as_it_is: {title: one, label: one, figures: [cartpole], study: *run}
  longer: {title: two, label: two, figures: [cartpole], seeds: 1, study: {<<: *run, episodes: 10}}
"""
    first, second = parse(text, "two.yaml")
    assert (first.name, first.seeds) == ("as_it_is", 3)
    assert (second.name, second.seeds) == ("longer", 1)
    assert isinstance(first.study, Training)
    assert isinstance(second.study, Training)
    assert (first.study.episodes, second.study.episodes) == (9, 10)
    assert second.study.constraints == "cartpole"


def test_numbers_are_those_of_constraint_files() -> None:
    text = TEXT.replace("{network: {hidden: [64]}}", "{step_size: 1e-4, baseline: none}")
    study = only(text).study
    assert isinstance(study, Training)
    assert study.settings == {"step_size": 1e-4, "baseline": "none"}


def test_limits_keep_what_is_small_enough() -> None:
    study = UpdateTimes(
        kind="update_times", width=16, batch=[5, 20, 60], constrained=[2, 9], points=[3, 8]
    )
    assert study.within(Limits(1, 1, 20)).batch == [5, 20]
    assert study.within(Limits(1, 1, 1)).constrained == [2]
