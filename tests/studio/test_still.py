"""The page without a server: everything in one file, and nothing that was not meant."""

from __future__ import annotations

import base64
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import sync_playwright

import handrail as hr
from handrail.report import Plane
from handrail.rulebook import parse, with_settings
from handrail.studio import write_page, write_report
from handrail.studio.still import data_of, page_of
from tests.runs.test_run import TEXT as ONE
from tests.studio.conftest import TEXT

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> hr.Run:
    text = TEXT.replace("name: push left", f'name: "{HOSTILE}"')
    book = with_settings(parse(text, "lean.yaml"), episodes=3)
    made = hr.Run.create(tmp_path_factory.mktemp("still") / "run", book)
    made.learn()
    return made


def test_numbers_are_those_of_the_run(run: hr.Run) -> None:
    data = data_of([run])
    assert data["curves"][0]["scores"] == [record.score for record in run.records()]
    shown = data["slices"][0]
    _, _, states = Plane.of(run.rulebook).states(shown["map"]["columns"])
    outputs = np.frombuffer(base64.b64decode(shown["map"]["values"]))
    expected = run.agent().policy.outputs(states).T.ravel()
    np.testing.assert_array_equal(outputs, expected)
    assert [one["status"] for one in data["verdicts"]] == ["holds"] * 3
    assert data["proof"] == "3 of 3 proven at every state"
    assert data["versions"]["handrail"] == hr.__version__
    assert {one["along"] for one in data["slices"]} == {-1, 0, 1}


def test_names_end_no_script(run: hr.Run) -> None:
    page = page_of([run])
    assert HOSTILE not in page
    kinds = re.findall(r"<script([^>]*)>", page)
    assert kinds == [' type="importmap"', ' type="application/json" id="data"', ' type="module"']
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["cards"][1]["name"] == HOSTILE


def test_with_one_observation_there_is_no_plane(tmp_path: Path) -> None:
    text = ONE.replace("Corridor-v0", "OneNumber-v0").replace("[position, one]", "[position]")
    text = text.replace(", one: 1}", "}")
    run = hr.Run.create(tmp_path / "run", with_settings(parse(text, "one"), freeze_after=5))
    run.learn()
    page = write_report([run], tmp_path / "report")
    assert (page.parent / "score.png").exists()
    data = data_of([run])
    assert data["slices"] == []
    assert len(data["curves"][0]["scores"]) == len(run.records())


@pytest.mark.skipif(
    shutil.which("chromium") is None,
    reason="there is no Chromium here (Debian: apt-get install chromium): the page is not tested",
)
def test_it_is_looked_at_without_anybody_to_serve_it(run: hr.Run, tmp_path: Path) -> None:
    file = write_page([run], tmp_path / "page.html")
    problems: list[str] = []
    requests: list[str] = []
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: requests.append(request.url.partition(":")[0]))
        page.goto(file.as_uri())
        page.wait_for_selector(".shape")
        assert len(page.query_selector_all(".shape")) == 2
        assert page.query_selector_all(".card .name")[1].input_value() == HOSTILE
        assert page.query_selector_all("img") == []
        assert len(page.query_selector_all(".cell")) > 0
        page.get_by_label("Value of x", exact=True).fill("0")
        assert len(page.query_selector_all(".shape.away")) == 1
        page.select_option("#layer", "change 1")
        with page.expect_download() as waiting:
            page.click("#map-svg")
        drawn = Path(waiting.value.path()).read_text()
        assert drawn.startswith("<svg")
        assert "data:image/png" in drawn
        browser.close()
    assert problems == []
    assert set(requests) <= {"file", "data", "blob"}
