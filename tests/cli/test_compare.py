"""`handrail compare`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from handrail.report import compare_runs
from tests.cli.conftest import Caller


@pytest.fixture
def groups(group: Path, tmp_path: Path) -> Path:
    """Two groups of the same runs: nothing is between them."""
    for name in ("one", "two"):
        shutil.copytree(group, tmp_path / name)
    return tmp_path


def test_a_table_and_pictures(groups: Path, handrail: Caller) -> None:
    code, out, error = handrail("compare", groups / "one", groups / "two", "--last", "4")
    assert (code, error) == (0, "")
    assert str(compare_runs(groups / "one", groups / "two", last=4)) in out
    assert "Average score of the last 4 of 12 episodes" in out
    assert "0.50 [" in out
    page = groups / "comparison" / "index.html"
    assert f"Pictures: {page}" in out
    for name in ("curves", "standings"):
        assert f'src="{name}.png"' in page.read_text()
        with Image.open(page.parent / f"{name}.png") as picture:
            assert np.asarray(picture.convert("L")).std() > 10


def test_json(groups: Path, handrail: Caller) -> None:
    code, out, error = handrail("compare", groups, "--json", "--out", groups / "elsewhere")
    assert (code, error) == (0, "")
    answer = json.loads(out)
    assert answer["episodes"] == 12
    assert answer["report"] == str(groups / "elsewhere" / "index.html")
    first, second = answer["groups"]
    assert (first["name"], first["seeds"], first["improvement"]) == ("one", 2, None)
    assert second["improvement"]["value"] == 0.5
    standing = compare_runs(groups / "one").standings[0]
    assert first["end"]["iqm"] == standing.end.iqm
    assert first["end"]["interval"] == list(standing.end.interval)


def test_what_cannot_be_compared(groups: Path, handrail: Caller) -> None:
    code, out, error = handrail("compare", groups / "one", "--episodes", "13", "--json")
    assert (code, out) == (2, "")
    assert "No run has recorded 13 episodes: the longest has 12." in error
    code, _, error = handrail("compare", groups / "nothing")
    assert code == 2
    assert "holds no run" in error


def test_no_pictures(groups: Path, handrail: Caller) -> None:
    code, out, _ = handrail("compare", groups, "--no-report")
    assert code == 0
    assert "Pictures" not in out
    assert not (groups / "comparison").exists()
