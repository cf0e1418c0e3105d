"""The whole reproduction in a very small form: every experiment, every exhibit, every file."""

from __future__ import annotations

import base64
import csv
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from paper.__main__ import app, main
from paper.exhibits import EXHIBITS
from paper.experiment import Limits, QLearning, Training, experiments
from paper.markdown import anchor
from paper.plan import Plan, make_plan, sized_plan
from paper.report import NOTICE, Report, report_page, write_results
from paper.results import HEADER
from tests.support.paths import ROOT

TINY = Limits(episodes=3, timesteps=250, rows=50)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Every experiment, one seed of three episodes."""
    plan = sized_plan(["all"], tmp_path_factory.mktemp("results"), 1, TINY)
    for job in plan.unfinished():
        job.run(lambda _: None, lambda: False)
    return plan


@pytest.fixture(scope="module")
def report(plan: Plan) -> Report:
    return write_results(plan, "python -m paper all")


def test_every_exhibit_is_on_the_page(plan: Plan, report: Report) -> None:
    page = (plan.folder / "report.html").read_text()
    assert [section.exhibit for section in report.sections] == list(EXHIBITS)
    for section in report.sections:
        assert f'id="{anchor(section.heading)}"' in page
        assert section.content.drawings or section.content.tables
    assert NOTICE in page
    assert list(report.counts) == ["not judged"]
    assert not re.findall(r"(?:src|href)=[\"'](?!data:|#)", page)


def test_what_is_not_known_is_a_dash_and_no_nan(plan: Plan, report: Report) -> None:
    assert report.sections  # written
    assert not re.search(r"\bnan\b", (plan.folder / "README.md").read_text(), re.IGNORECASE)
    legends = [
        text.get_text()
        for section in report.sections
        for drawing in section.content.drawings
        for axes in drawing.figure.axes
        if (legend := axes.get_legend()) is not None
        for text in legend.get_texts()
    ]
    assert legends
    assert not [text for text in legends if "nan" in text.split()]


def test_every_drawing_is_there_twice_and_on_the_page(plan: Plan, report: Report) -> None:
    page = (plan.folder / "report.html").read_text()
    names = [drawing.name for one in report.sections for drawing in one.content.drawings]
    assert len(set(names)) == len(names) >= 25
    for name in names:
        png = (plan.folder / "figures" / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert base64.b64encode(png).decode() in page
        assert b"</svg>" in (plan.folder / "figures" / f"{name}.svg").read_bytes()


def test_every_drawing_says_what_it_shows(report: Report) -> None:
    for section in report.sections:
        for drawing in section.content.drawings:
            assert drawing.caption.endswith("."), drawing.name
            if drawing.name in ("environments", "matrices"):  # images, their axes are no numbers
                continue
            # Panels that share an axis name it once.
            assert any(axes.get_xlabel() for axes in drawing.figure.axes), drawing.name
            up = [axes.get_ylabel() for axes in drawing.figure.axes]
            names = drawing.name.startswith("efficiency-") or drawing.name == "cartpole-spread"
            assert any(up) or names, drawing.name  # of learners, there


def metrics(plan: Plan, name: str) -> list[str]:
    return (plan.folder / "metrics" / name / "seed-0.csv").read_text().splitlines()


def test_every_seed_has_its_metrics(plan: Plan, report: Report) -> None:
    assert report.sections  # written
    learning = [one for one in plan.experiments if isinstance(one.study, Training | QLearning)]
    assert len(learning) >= 24
    for one in learning:
        rows = list(csv.reader(metrics(plan, one.name)))
        assert tuple(rows[0]) == HEADER
        assert [row[0] for row in rows[1:]] == [str(number) for number in range(len(rows) - 1)]
        steps = [float(row[2]) for row in rows[1:]]
        assert steps == sorted(steps)
        if isinstance(one.study, Training) and "one_step" not in str(one.study.settings):
            assert len(rows) == 4, one.name
    exact = csv.DictReader(metrics(plan, "cartpole_exact"))
    assert all(float(row["violation"]) <= 1e-6 for row in exact)


def test_what_is_finished_is_only_drawn_again(plan: Plan, report: Report) -> None:
    assert report.sections
    assert plan.unfinished() == []
    figure = plan.folder / "figures" / "cartpole-loss.svg"
    before = figure.read_bytes()
    again = sized_plan(["cartpole-loss"], plan.folder, 1, TINY)
    assert again.unfinished() == []
    shown = write_results(again, "python -m paper cartpole-loss")
    assert [section.exhibit.name for section in shown.sections] == ["cartpole-loss"]
    assert figure.read_bytes() == before


def test_other_limits_are_other_results(plan: Plan) -> None:
    larger = Limits(episodes=4, timesteps=250, rows=50)
    unfinished = sized_plan(["cartpole-loss"], plan.folder, 1, larger).unfinished()
    assert [job.experiment.name for job in unfinished] == ["cartpole_paper"]
    second = sized_plan(["cartpole-loss"], plan.folder, 2, TINY).unfinished()
    assert [job.seed for job in second] == [1]


def test_the_report_in_the_docs_is_of_every_experiment_and_seed() -> None:
    kept = ROOT / "docs" / "reproduction"
    page = (kept / "README.md").read_text()
    assert "`python -m paper all`" in page
    assert NOTICE not in page
    for exhibit in EXHIBITS:
        assert exhibit.title in page
    for one in experiments():
        assert one.title in page
        if isinstance(one.study, Training | QLearning):
            files = {path.name for path in (kept / "metrics" / one.name).iterdir()}
            assert files == {f"seed-{seed}.csv" for seed in range(one.seeds)}


def test_the_page_in_the_docs_is_that_of_its_markdown() -> None:
    kept = ROOT / "docs" / "reproduction"
    text = (kept / "README.md").read_text()
    images = {
        f"figures/{path.name}": path.read_bytes() for path in (kept / "figures").glob("*.png")
    }
    assert (kept / "report.html").read_text() == report_page(text, images)
    assert set(re.findall(r"\]\((figures/[^)]*)\)", text)) == set(images)


# The command


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_the_command_lists_figures_and_experiments() -> None:
    answer = invoke("--list")
    assert answer.exit_code == 0
    text = " ".join(answer.output.split())
    for exhibit in EXHIBITS:
        assert f"{exhibit.name}: {exhibit.title}" in text
    for one in experiments():
        assert one.name in text


def test_the_command_shows_a_table_and_writes_the_page(tmp_path: Path) -> None:
    answer = invoke("table-lunar-lander", "matrices", "--out", str(tmp_path / "results"))
    assert answer.exit_code == 0, answer.output
    assert "≠ differs" in answer.output
    assert (
        "python -m paper table-lunar-lander matrices"
        in (tmp_path / "results" / "report.html").read_text()
    )
    assert (tmp_path / "results" / "figures" / "matrices.png").exists()


def test_what_cannot_be_done_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "file"
    taken.touch()
    for arguments, message in (
        (["figure-99"], "There is no figure 'figure-99'. There are: all, matrices, "),
        (["matrices", "--out", str(taken)], f"--out {taken}: File exists. Expected a folder"),
    ):
        monkeypatch.setattr(sys, "argv", ["paper", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert said.startswith(f"error: {message}")
        assert said.count("\n") == 1


@pytest.mark.slow
def test_an_interrupted_reproduction_continues(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "paper", "cartpole-regions", "--quick"]
    command += ["--jobs", "1", "--out", str(tmp_path)]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not list(tmp_path.glob("runs/*/seed-0/outcome.json")):
        assert first.poll() is None
        time.sleep(0.1)
    first.send_signal(signal.SIGINT)
    said, _ = first.communicate(timeout=120)
    assert first.returncode == 130, said
    assert "The same command continues where it was." in said
    finished = list(tmp_path.glob("runs/*/seed-*/outcome.json"))
    n_jobs = len(make_plan(["cartpole-regions"], tmp_path, quick=True).jobs())
    assert 1 <= len(finished) < n_jobs
    stamps = {path: path.stat().st_mtime_ns for path in finished}
    second = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "Report:" in second.stdout
    assert len(list(tmp_path.glob("runs/*/seed-*/outcome.json"))) == n_jobs
    assert stamps == {path: path.stat().st_mtime_ns for path in finished}
