"""The docs: every example runs, every link leads somewhere, and the demonstration demonstrates."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import handrail as hr
from handrail.report.drawing import draw_policy, draw_states, new_figure
from handrail.report.plane import Plane
from tests.conftest import small_policy
from tests.support.paths import ROOT
from tests.support.scripts import load_script

check = load_script("docs/check.py")

README = ROOT / "README.md"


def label(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [one for one in check.pages() if one != README], ids=label)
def test_examples_run_and_links_lead_somewhere(page: Path) -> None:
    assert check.broken_links(page) == []
    if not check.is_runnable(page):
        pytest.skip("it needs what only `make test-rllib` installs, which runs it")
    n_examples = check.run_examples(page)
    if page == ROOT / "docs" / "explanation" / "concepts.md":
        assert n_examples >= 3


@pytest.mark.parametrize("file", [*check.pages(), *check.sources()], ids=label)
def test_what_a_text_mentions_exists(file: Path) -> None:
    assert check.unknown_names(file.read_text(encoding="utf-8")) == []


def test_what_does_not_exist_is_found() -> None:
    there = "`hr.enforce`, handrail.proof.certify, `errors.py`, docs/index.md, `tests/proof`"
    elsewhere = "[a link](gone.py), https://example.org/page.md, ../gone.py, my/gone.yaml"
    assert check.unknown_names(f"{there}, {elsewhere}") == []
    for name in ("hr.obey", "handrail.proofs", "handrail.proof.obey", "design.md", "docs/old.md"):
        assert check.unknown_names(f"{there}, `{name}`.") == [name]


def test_the_readme_runs_and_quotes_the_conflict_as_it_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = README.read_text()
    assert README in check.pages()
    assert check.broken_links(README) == []
    assert check.run_examples(README) >= 3
    printed = capsys.readouterr().out
    quoted = text[text.index("# No step satisfies") : text.index(" Relax one of them, …")]
    assert quoted.replace("\n# ", " ").removeprefix("# ") in printed


def test_the_demonstration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = load_script("examples/obey_before_training.py")
    picture = tmp_path / "policy.png"
    monkeypatch.setattr(sys, "argv", ["demo", "--picture", str(picture)])
    demo.main()
    printed = capsys.readouterr().out
    assert printed.count("≥ 0.95") == 18
    assert "in 1 iteration, " in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert demo.scores(small_policy(4, 2), episodes=2).shape == (2,)


def test_a_slice_is_a_grid_over_two_coordinates() -> None:
    plane = Plane((1.0, 2.0, 3.0), 2, 0, (-1.0, 1.0), (5.0, 6.0))
    across, up, states = plane.states()
    assert states.shape == (len(across) * len(up), 3)
    np.testing.assert_array_equal(states[:, 1], 2.0)
    np.testing.assert_array_equal(states[: len(across), 2], across)
    np.testing.assert_array_equal(states[:: len(across), 0], up)


def test_the_policy_is_drawn_as_it_is() -> None:
    policy = small_policy()
    plane = Plane((0.0, 0.0, 0.0), 0, 1, (-1.0, 1.0), (-2.0, 2.0))
    axes = new_figure(3, 3).subplots()
    mesh = draw_policy(axes, policy, plane, action=2)
    drawn = np.asarray(mesh.get_array()).ravel()
    np.testing.assert_allclose(drawn, policy.probabilities(plane.states()[2])[:, 2])
    draw_states(axes, hr.Points([[0.5, 0.25, 9.0]]).states, plane)
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[0.5, 0.25]])
