"""Runs as files: pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from handrail.report.report import write_pictures
from handrail.rulebook.rulebook import load_rulebook, parse, with_settings
from handrail.runs.run import Run
from tests.report.figures import book, lean_left
from tests.runs.test_run import TEXT


def test_there_is_a_picture_of_everything(tmp_path: Path) -> None:
    rules = with_settings(book([lean_left()]), episodes=2)
    run = Run.create(tmp_path / "run", rules)
    run.learn()
    pictures = {path.stem: path for path in write_pictures([run], tmp_path / "report")}
    for name in ("episode", "policy", "first_holding", "influence", "proof"):
        with Image.open(pictures[name]) as picture:
            assert picture.width > 400
            assert np.asarray(picture.convert("L")).std() > 10


def test_what_is_not_held_exactly_has_no_picture_of_it(tmp_path: Path) -> None:
    rules = with_settings(
        load_rulebook("cartpole"), episodes=2, enforcement="one_step", network={"hidden": [16]}
    )
    run = Run.create(tmp_path / "run", rules)
    run.learn()
    found = {path.stem for path in write_pictures(run, tmp_path / "pictures")}
    assert found == {"score", "loss", "violation", "episode", "policy"}


def test_pictures_of_a_frozen_policy_with_one_observation(tmp_path: Path) -> None:
    text = TEXT.replace("Corridor-v0", "OneNumber-v0").replace("[position, one]", "[position]")
    text = text.replace(", one: 1}", "}")
    run = Run.create(tmp_path / "run", with_settings(parse(text, "one"), freeze_after=5))
    run.learn()
    found = write_pictures([run], tmp_path / "report")
    assert sorted(path.name for path in found) == [
        "episode.png",
        "influence.png",
        "loss.png",
        "score.png",
        "violation.png",
    ]
