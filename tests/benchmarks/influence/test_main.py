"""Which cells the studies have, and the page that what is kept of them makes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cells.journal import Journal
from benchmarks.cells.line import Line
from benchmarks.influence.__main__ import plan
from benchmarks.influence.cell import InfluenceCell
from benchmarks.influence.report import Results, page
from benchmarks.influence.setting import CARTPOLE_REINFORCE, MOUNTAIN_CAR_PPO
from benchmarks.influence.study import INSTEAD, ONE_SIDED, SEEDS, STUDIES, Row, Study
from benchmarks.influence.summary import summary_of
from benchmarks.influence.training import Training


def test_studies_share_cells_and_words_choose_among_them() -> None:
    study = plan(STUDIES, SEEDS)
    everything = study.chosen([])
    assert len(everything) == len(set(everything))
    plain = {InfluenceCell(CARTPOLE_REINFORCE, "nothing", "plain", seed) for seed in SEEDS}
    for name in ("one_sided", "full"):
        assert plain <= set(study.chosen([name]))
    assert set(study.chosen(["one_sided", "cartpole", "reinforce", "plain"])) == plain
    chosen = study.chosen(["full", "cartpole", "ppo", "normalised", "rail"], 4)
    assert [cell.name for cell in chosen] == [
        f"cartpole-ppo-100000-normalised-full-rail-{n}" for n in range(4)
    ]


def test_what_happens_seldom_is_looked_for_on_more_seeds() -> None:
    study = plan(STUDIES, SEEDS)
    for words in (
        ["full", "100000", "rail", "cartpole", "ppo"],
        ["full", "100000", "plain"],
        ["one_sided", "cartpole", "ppo", "box_left", "mask"],
        ["one_sided", "cartpole", "ppo", "plain"],
    ):
        seeds = [one.seed for one in study.chosen(words) if "normalised" not in one.name]
        assert seeds == list(range(30))
    boxes = study.chosen(["instead", "cartpole", "rail"])
    assert [one.seed for one in boxes] == list(range(10))


def test_the_page_from_lines_is_that_from_fresh_trainings(tmp_path: Path) -> None:
    told = Row(MOUNTAIN_CAR_PPO, "right_uphill", "rail")
    studies = [
        Study(ONE_SIDED.name, ONE_SIDED.title, (told.plain(), told)),
        Study(INSTEAD.name, INSTEAD.title, (told, told.plain())),
    ]
    fresh, journal = {}, Journal(tmp_path / "influence.jsonl")
    for row in (told, told.plain()):
        fresh[row] = {seed: summary_of(_training(seed, row), row.setting) for seed in range(4)}
        for cell in row.cells(range(4)):
            summary = fresh[row][cell.seed]
            journal.add(Line.of_now(cell.name, cell.fingerprint, cell.digest, summary))
    kept = journal.read()
    text = plan(studies, range(4)).page(kept)
    versions = Results.read(studies, range(4), kept).versions
    assert text == page(studies, Results(fresh, versions=versions))
    assert "python 3" in versions
    assert "†" not in text


def test_what_other_code_trained_is_marked(tmp_path: Path) -> None:
    told = Row(MOUNTAIN_CAR_PPO, "right_uphill", "rail")
    journal = Journal(tmp_path / "influence.jsonl")
    for row in (told, told.plain()):
        for cell in row.cells(range(2)):
            code = cell.digest if cell.seed else cell.digest and "earlier"
            summary = summary_of(_training(cell.seed, row), row.setting)
            journal.add(Line.of_now(cell.name, cell.fingerprint, code, summary))
    study = Study(INSTEAD.name, INSTEAD.title, (told, told.plain()))
    text = plan([study], range(2)).page(journal.read())
    assert "| rail † | 2 |" in text
    assert "| plain | 2 |" in text
    assert "† Some seeds, or those it is compared with, were trained with other code" in text


def _training(seed: int, row: Row) -> Training:
    """With numbers that need more digits than are kept, and none in the first tenth."""
    is_held = row.arm == "rail"
    return Training(
        scores=tuple(100.0 + episode / 3.0 + seed / 7.0 for episode in range(50)),
        ends=tuple(range(10_000, 60_000, 1_000)),
        seconds=100.0 / 3.0,
        worst_violation=-1e-3 / 3.0 if is_held else None,
        final_violation=-2e-5 / 3.0,
        steps_in_places=30,
        steps_broken=seed,
        first_influence=1.0 / 7.0 if is_held else None,
        influence=None,
    )
