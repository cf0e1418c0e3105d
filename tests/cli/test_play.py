"""`handrail play`."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from tests.cli.conftest import Caller


def test_play_films(group: Path, handrail: Caller, tmp_path: Path) -> None:
    film = tmp_path / "deep" / "film.gif"
    code, out, _ = handrail("play", str(group / "seed-4"), "--episodes", "2", "--out", str(film))
    assert code == 0
    assert str(film) in out.replace("\n", "")
    with Image.open(film) as opened:
        assert opened.n_frames > 4  # type: ignore[attr-defined]
        assert opened.size == (120, 20)


def test_an_environment_that_cannot_show_itself(group: Path, handrail: Caller) -> None:
    code, _, error = handrail("play", str(group / "seed-4"), "--window")
    assert code == 2
    assert "This environment cannot render 'human'; it offers rgb_array." in error
