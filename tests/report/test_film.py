"""A policy at work, as an animated GIF."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.registration import register
from PIL import Image

from handrail.errors import EnvironmentFailure, InvalidArgument
from handrail.report.film import watch, write_film
from handrail.rulebook.rulebook import parse
from handrail.runs.run import Run
from tests.runs.test_run import TEXT
from tests.support.environments import Corridor
from tests.support.paths import ROOT


class Mute(Corridor):
    """Renders nothing that could be seen."""

    def render(self) -> Any:
        return "a corridor"


register(
    "Mute-v0",
    entry_point="tests.report.test_film:Mute",
    max_episode_steps=20,
    disable_env_checker=True,
)


def of(text: str, folder: Path) -> Run:
    return Run.create(folder, parse(text, "corridor"))


def test_a_frame_per_state(tmp_path: Path) -> None:
    run = of(TEXT, tmp_path / "run")
    played = write_film(run, tmp_path / "deep" / "film.gif", episodes=2)
    with Image.open(tmp_path / "deep" / "film.gif") as film:
        frames = film.n_frames  # type: ignore[attr-defined]
        assert film.size == (120, 20)
    # Where nothing moves, frames are joined.
    assert 4 < frames <= sum(len(one.states) + 1 for one in played)
    again = write_film(run, tmp_path / "again.gif", episodes=2)
    assert [one.score for one in again] == [one.score for one in played]
    assert (tmp_path / "again.gif").read_bytes() == (tmp_path / "deep" / "film.gif").read_bytes()


def test_what_cannot_be_filmed(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot render 'human'; it offers rgb_array"):
        watch(of(TEXT, tmp_path / "run"))
    mute = of(TEXT.replace("Corridor-v0", "Mute-v0"), tmp_path / "mute")
    with pytest.raises(EnvironmentFailure, match="rendered str, not a picture"):
        write_film(mute, tmp_path / "film.gif")
    assert not (tmp_path / "film.gif").exists()


@pytest.mark.slow  # the command that makes one is tried in tests/cli/test_play.py
def test_nothing_is_said_where_there_is_no_screen(tmp_path: Path) -> None:
    """SDL complains on its own, past Python's streams."""
    code = f"""
import handrail as hr
book = hr.rulebook.with_settings(hr.load_rulebook("cartpole"), network={{"hidden": [8]}})
run = hr.Run.create({str(tmp_path / "run")!r}, book)
hr.report.write_film(run, {str(tmp_path / "film.gif")!r})
"""
    lost = ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "SDL_VIDEODRIVER")
    environment = {key: value for key, value in os.environ.items() if key not in lost}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
    with Image.open(tmp_path / "film.gif") as film:
        assert np.asarray(film.convert("L")).std() > 10
