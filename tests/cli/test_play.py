"""`handrail play`."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

import handrail as hr
from tests.cli.conftest import Caller, start


def test_play_films(group: Path, handrail: Caller, tmp_path: Path) -> None:
    film = tmp_path / "deep" / "film.gif"
    code, out, _ = handrail("play", str(group / "seed-4"), "--episodes", "2", "--out", str(film))
    assert code == 0
    assert str(film) in out.replace("\n", "")
    with Image.open(film) as opened:
        assert opened.n_frames > 4  # type: ignore[attr-defined]
        assert opened.size == (120, 20)


def test_a_film_complains_of_no_screen(tmp_path: Path) -> None:
    """SDL writes to the standard error by itself, so a process of its own is needed to see it."""
    book = hr.rulebook.with_settings(
        hr.load_rulebook("cartpole"), episodes=1, network={"hidden": [8]}, enforcement="none"
    )
    hr.Run.create(tmp_path / "run", book).learn()
    out, error = start("play", "run", "--out", "film.gif", cwd=tmp_path).communicate(timeout=120)
    assert "film.gif" in out
    assert error == ""
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_an_environment_that_cannot_show_itself(group: Path, handrail: Caller) -> None:
    code, _, error = handrail("play", str(group / "seed-4"), "--window")
    assert code == 2
    assert "This environment cannot render 'human'; it offers rgb_array." in error
