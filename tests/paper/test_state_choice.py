"""What states are chosen by is what the update compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.constraints import expand
from handrail.errors import InvalidArgument
from handrail.runs import make_policy
from paper.experiment import StateChoice
from paper.state_choice import measure_choices, read_choices
from tests.support.paper import nothing


def test_choices_are_what_the_update_compares(tmp_path: Path) -> None:
    study = StateChoice(
        kind="state_choice",
        constraints="cartpole_disks",
        episodes=3,
        maps=[0, 2, 9],
        settings={
            "network": {"hidden": [256]},
            "enforcement": "one_step",
            "baseline": "standardised",
            "selection": {"strategy": "maximum_deviation", "points": 12},
        },
    )
    measure_choices(study, 1, tmp_path, nothing)
    choices = read_choices(tmp_path)
    assert choices.scores.shape == (3, 12)
    book = study.rulebook(1)
    policy = make_policy(book, book.make_environment())
    first = expand(book.constraints, policy).regional[0]
    points = first.region.cover(12)
    expected = first.rows_at(points).violations_of(policy)
    assert choices.scores[0] == pytest.approx(expected, abs=1e-12)
    assert [one.episode for one in choices.maps] == [0, 2]  # there is no ninth
    star = choices.maps[0].stars[0]
    assert star == pytest.approx(points[choices.chosen[0]])
    assert choices.maps[0].trajectory.shape[1] == 4
    assert choices.worst[0] >= choices.scores[0].max()


def test_a_choice_of_everywhere_is_refused(tmp_path: Path) -> None:
    study = StateChoice(kind="state_choice", constraints="cartpole_disks", episodes=1, maps=[0])
    with pytest.raises(InvalidArgument, match="needs maximum_return or maximum_deviation"):
        measure_choices(study, 0, tmp_path, nothing)
