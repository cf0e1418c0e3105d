"""Sweeps: settings as folders, what exists is kept, what does not fit is refused as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail.errors import InvalidArgument, InvalidRun
from handrail.runs.metrics import METRICS
from handrail.runs.run import Run
from handrail.runs.sweep import Axis, Choice, choices, start_sweep
from tests.runs.test_run import book


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"hidden": 1000, "step_size": 1e-4}, "step_size=0.0001,hidden=1000"),
        ({"network.hidden": [64, 32]}, "hidden=64x32"),
        ({"selection.points": 9, "enforcement": "none"}, "enforcement=none,selection.points=9"),
        ({"soft": True, "tolerance": None}, "soft=true,tolerance=none"),
        ({"reach": {"first": 10, "last": 0.1}}, "reach=first10+last0.1"),
        ({"baseline": "a/b c"}, "baseline=a_b_c"),
    ],
)
def test_a_folder_says_the_settings(values: dict[str, Any], name: str) -> None:
    assert str(Choice.of(values)) == name
    assert str(Choice.of(dict(reversed(values.items())))) == name


def test_every_combination_once() -> None:
    axes = [Axis("step_size", (1e-3, 1e-2, 1e-3)), Axis("network.hidden", (8, [8, 8]))]
    assert [str(one) for one in choices(axes)] == [
        "step_size=0.001,hidden=8",
        "step_size=0.001,hidden=8x8",
        "step_size=0.01,hidden=8",
        "step_size=0.01,hidden=8x8",
    ]
    settings = choices(axes)[1].applied_to(book()).settings
    assert (settings.step_size, settings.network.hidden) == (1e-3, [8, 8])
    assert settings.seed == 4  # the rest is as it was


def test_axes_that_make_no_sense() -> None:
    with pytest.raises(InvalidArgument, match="hidden is swept twice"):
        choices([Axis("hidden", (8,)), Axis("network.hidden", (16,))])
    with pytest.raises(InvalidArgument, match="Every setting has the same seeds"):
        choices([Axis("seed", (1, 2))])
    both = Choice.of({"network": {"hidden": [8]}, "network.activation": "tanh"})
    assert both.applied_to(book()).settings.network.activation == "tanh"
    whole = Choice.of({"selection": "everywhere", "selection.points": 3})
    with pytest.raises(InvalidArgument, match="selection was set to 'everywhere' as a whole"):
        whole.applied_to(book())


def test_what_exists_is_kept_and_the_rest_is_added(tmp_path: Path) -> None:
    rules = book(episodes=3)
    (first,) = start_sweep(tmp_path, rules, choices([Axis("step_size", (1e-3,))]), 1)
    first.runs[0].learn()
    before = (first.runs[0].folder / METRICS).read_bytes()
    more = start_sweep(tmp_path, rules, choices([Axis("step_size", (1e-3, 1e-2))]), 2)
    assert [group.folder.name for group in more] == ["step_size=0.001", "step_size=0.01"]
    assert [[run.seed for run in group.runs] for group in more] == [[4, 5], [4, 5]]
    assert [run.finished for group in more for run in group.runs] == [True, False, False, False]
    assert (first.runs[0].folder / METRICS).read_bytes() == before
    assert more[1].runs[1].rulebook.settings.step_size == 1e-2
    alone = Run.create(tmp_path / "alone", more[1].runs[1].rulebook)
    for run in (alone, more[1].runs[1]):
        run.learn()
    assert (more[1].runs[1].folder / METRICS).read_bytes() == (alone.folder / METRICS).read_bytes()


def test_nothing_is_begun_if_anything_does_not_fit(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    with pytest.raises(InvalidArgument, match=r"step_size=-1: .*expected greater than 0, but got"):
        start_sweep(sweep, book(), choices([Axis("step_size", (1e-3, -1))]), 2)
    assert not sweep.exists()
    axes = [Axis("step_size", (1e-3, 1e-2))]
    (sweep / "step_size=0.01" / "seed-5").mkdir(parents=True)
    (sweep / "step_size=0.01" / "seed-5" / "thesis.tex").touch()
    with pytest.raises(InvalidRun, match="seed-5 is not empty"):
        start_sweep(sweep, book(), choices(axes), 2)
    assert not (sweep / "step_size=0.001").exists()
    (sweep / "step_size=0.01" / "seed-5" / "thesis.tex").unlink()
    start_sweep(sweep, book(), choices(axes), 2)
    with pytest.raises(InvalidArgument, match="holds runs of other constraints or settings"):
        start_sweep(sweep, book(discount=0.5), choices(axes), 2)
