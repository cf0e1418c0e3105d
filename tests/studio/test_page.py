"""The page in a real browser: drawn with a hand, read with eyes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import handrail as hr
from handrail.rulebook import parse
from handrail.studio.handles import line_of
from tests.studio.conftest import TEXT, Studio

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    BROWSER is None,
    reason="there is no Chromium here (Debian: apt-get install chromium): the page is not tested",
)

WAIT = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def page(browser: Browser, studio: Studio) -> Iterator[Page]:
    shown = browser.new_page(viewport={"width": 1280, "height": 720})
    problems: list[str] = []
    requests: list[str] = []
    shown.on("pageerror", lambda error: problems.append(str(error)))
    shown.on(
        "console",
        lambda message: problems.append(message.text) if message.type == "error" else None,
    )
    shown.on("request", lambda request: requests.append(request.url))
    shown.goto(studio.address)
    answered(shown)
    yield shown
    assert problems == []
    assert [url for url in requests if not url.startswith(studio.address)] == []


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for something to become so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def answered(page: Page) -> None:
    """Wait until the newest text is drawn and held."""
    script = """() => {
      const { awaited, document, drawing, held } = window.studio;
      return Boolean(held) && document.revision >= awaited && document.revision === drawing.revision
        && document.revision === held.revision;
    }"""
    time.sleep(0.3)  # until what a hand did has reached the server
    until(lambda: page.evaluate(script))


def place(page: Page, x: float, y: float) -> tuple[float, float]:
    """Pixels of a point of the plane."""
    script = """([x, y]) => {
      const { map } = window.studio;
      const box = map.place.getBoundingClientRect();
      return [box.left + map.x.pixel(x), box.top + map.y.pixel(y)];
    }"""
    found = page.evaluate(script, [x, y])
    return found[0], found[1]


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*place(page, *start))
    page.mouse.down()
    for step in range(1, 9):
        share = step / 8
        between = (a + (b - a) * share for a, b in zip(start, end, strict=True))
        page.mouse.move(*place(page, *between))
    page.mouse.up()


def text(page: Page) -> str:
    return str(page.input_value("textarea"))


def test_a_file_is_shown_as_it_is(page: Page) -> None:
    assert text(page) == TEXT
    names = [one.input_value() for one in page.query_selector_all(".card .name")]
    assert names == ["push right", "push left", "at rest"]
    page.wait_for_selector('#state[data-proof="0"]', timeout=WAIT)
    assert "3 of 3 proven at every state" in page.inner_text("#state")
    assert len(page.query_selector_all(".shape")) == 2
    assert len(page.query_selector_all(".spot")) == 2


def test_a_box_is_drawn_dragged_and_undone(page: Page) -> None:
    page.click("#tool-box")
    drag(page, (-0.3, 0.2), (-0.2, 0.3))
    answered(page)
    entry = parse(text(page), "lean.yaml").source.data["constraints"][3]
    assert entry["region"]["phi"] == pytest.approx([-0.3, -0.2], abs=0.003)
    assert entry["require"] == "right >= 0.95"
    drag(page, (-0.25, 0.25), (-0.15, 0.25))
    answered(page)
    entry = parse(text(page), "lean.yaml").source.data["constraints"][3]
    assert entry["region"]["phi"] == pytest.approx([-0.2, -0.1], abs=0.006)
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    answered(page)
    assert text(page) == TEXT


def test_keys_move_and_remove_the_shape_that_was_clicked(page: Page) -> None:
    page.click("#tool-box")
    drag(page, (-0.3, 0.2), (-0.2, 0.3))
    answered(page)
    page.mouse.click(*place(page, -0.25, 0.25))
    before = parse(text(page), "lean.yaml").source.data["constraints"][3]["region"]["phi"]
    for _ in range(4):  # faster than the server draws
        page.keyboard.press("ArrowRight")
    answered(page)
    after = parse(text(page), "lean.yaml").source.data["constraints"][3]["region"]["phi"]
    width = page.evaluate("() => window.studio.shapes.width")
    assert after[0] - before[0] == pytest.approx(4 * 0.005 * width, rel=0.1)
    page.keyboard.press("Delete")
    answered(page)
    assert len(parse(text(page), "lean.yaml").source.data["constraints"]) == 3
    for _ in range(6):
        page.keyboard.press("Control+z")
    answered(page)
    assert text(page) == TEXT


def test_keys_on_their_way_are_not_lost_when_an_earlier_one_is_drawn(page: Page) -> None:
    def shown() -> float:
        return float(page.evaluate("() => studio.drawing.shapes.at(-1).handles[0].x"))

    page.click("#tool-box")
    drag(page, (-0.3, 0.2), (-0.2, 0.3))
    answered(page)
    page.mouse.click(*place(page, -0.25, 0.25))
    before = parse(text(page), "lean.yaml").source.data["constraints"][3]["region"]["phi"]
    page.evaluate("""() => {
      const { channel } = studio;
      const send = channel.send.bind(channel);
      window.late = [];
      channel.send = (request) => window.late.push(request);
      window.deliver = (count) => window.late.splice(0, count).forEach(send);
    }""")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    at_first = shown()
    page.evaluate("() => window.deliver(1)")
    until(lambda: shown() != at_first)  # the first is drawn, the second is still on its way
    page.keyboard.press("ArrowRight")
    page.evaluate("() => { delete studio.channel.send; window.deliver(2); }")
    answered(page)
    after = parse(text(page), "lean.yaml").source.data["constraints"][3]["region"]["phi"]
    width = page.evaluate("() => window.studio.shapes.width")
    assert after[0] - before[0] == pytest.approx(3 * 0.005 * width, rel=0.1)
    for _ in range(4):
        page.keyboard.press("Control+z")
    answered(page)
    assert text(page) == TEXT


def test_a_double_click_on_an_edge_adds_a_vertex(page: Page) -> None:
    def vertices() -> list[list[float]]:
        entry = parse(text(page), "lean.yaml").source.data["constraints"][1]
        found: list[list[float]] = entry["region"]["polytope"]["vertices"]
        return found

    count = len(vertices())
    (x0, y0), (x1, y1) = vertices()[:2]
    middle = ((x0 + x1) / 2, (y0 + y1) / 2)
    page.mouse.dblclick(*place(page, *middle))
    answered(page)
    assert len(vertices()) == count + 1
    assert vertices()[1] == pytest.approx(list(middle), abs=0.01)
    page.keyboard.press("Control+z")
    answered(page)
    assert len(vertices()) == count


def test_a_vertex_follows_the_hand_and_a_conflict_marks_both(page: Page) -> None:
    page.mouse.click(*place(page, -0.2, 0.0))
    drag(page, (-0.1, -0.1), (0.3, -0.05))
    answered(page)
    vertices = parse(text(page), "lean.yaml").source.data["constraints"][1]["region"]["polytope"]
    assert vertices["vertices"][1] == pytest.approx([0.3, -0.05], abs=0.003)
    assert "Conflict." in page.inner_text("#state")
    assert len(page.query_selector_all(".card.clash")) == 2
    assert len(page.query_selector_all(".shape.clash")) == 2
    assert len(page.query_selector_all(".clash-mark")) == 1
    assert page.evaluate("() => studio.held.map.values === studio.held.before.values")
    page.click("#undo")
    answered(page)
    assert text(page) == TEXT


def test_what_is_typed_is_drawn(page: Page) -> None:
    page.fill("textarea", TEXT.replace("push left", "push it left"))
    answered(page)
    assert page.query_selector_all(".card .name")[1].input_value() == "push it left"
    page.fill("textarea", TEXT.replace("left >= 0.9", "lft >= 0.9"))
    page.wait_for_selector(".message.bad")
    assert "unknown action or observation 'lft'" in page.inner_text(".message.bad")
    assert page.inner_text(".gutter .wrong") == "17"
    page.fill("textarea", TEXT)
    page.wait_for_selector(".message.bad", state="hidden")


def test_a_bound_is_a_slider_and_a_line(page: Page) -> None:
    line = page.locator(".card").nth(0).locator(".require")
    line.fill("right >= 0.8")
    answered(page)
    assert text(page) == TEXT.replace("right >= 0.9", "right >= 0.8")
    page.locator(".card").nth(0).locator("input[type=range]").fill("0.7")
    answered(page)
    assert "require: right >= 0.7\n" in text(page)


def test_names_are_text_never_markup(page: Page) -> None:
    hostile = '<img src=x onerror="document.title=1">'
    page.fill("textarea", TEXT.replace("push left", f"'{hostile}'"))
    answered(page)
    assert page.query_selector_all(".card .name")[1].input_value() == hostile
    assert page.query_selector_all("img") == []
    assert page.title() != "1"


def test_what_is_saved_is_what_was_drawn(page: Page, studio: Studio) -> None:
    page.fill("textarea", TEXT)
    page.click("#tool-ball")
    drag(page, (-0.25, -0.25), (-0.2, -0.25))
    answered(page)
    drawn = text(page)
    page.keyboard.press("Control+s")
    page.wait_for_selector("#unsaved", state="hidden")
    assert studio.file.read_text() == drawn
    page.reload()
    answered(page)
    assert text(page) == drawn
    ball = parse(drawn, "lean.yaml").source.data["constraints"][3]["region"]["ball"]
    assert ball["radius"] == pytest.approx(0.05, abs=0.003)
    assert drawn.startswith(TEXT[: TEXT.index("settings:")].rstrip("\n"))


def test_a_line_is_drawn_and_its_end_dragged(page: Page) -> None:
    page.fill("textarea", TEXT)
    answered(page)
    page.click("#tool-line")
    drag(page, (-0.3, 0.2), (-0.2, 0.3))
    answered(page)
    drag(page, (-0.2, 0.3), (-0.2, 0.25))
    answered(page)
    entry = parse(text(page), "lean.yaml").source.data["constraints"][3]["region"]["curve"]
    ends = np.array([[line_of(entry[name]) for name in ("phi", "phi_dot")]])[0]
    np.testing.assert_allclose(ends[:, 0], [-0.3, 0.2], atol=0.004)
    np.testing.assert_allclose(ends.sum(axis=1), [-0.2, 0.25], atol=0.004)
    drag(page, (-0.25, 0.225), (-0.25, 0.125))
    answered(page)
    entry = parse(text(page), "lean.yaml").source.data["constraints"][3]["region"]["curve"]
    moved = np.array([line_of(entry[name]) for name in ("phi", "phi_dot")])
    np.testing.assert_allclose(moved.sum(axis=1), [-0.2, 0.15], atol=0.006)
    page.fill("textarea", TEXT)
    answered(page)


def test_the_policy_is_exported_beside_the_file(page: Page, studio: Studio) -> None:
    page.fill("textarea", TEXT)
    answered(page)
    file = studio.file.with_suffix(".npz")
    page.click("#exports summary")
    assert page.inner_text("#export-numpy b") == str(file)
    page.click("#export-numpy")
    page.wait_for_selector("#banner:not([hidden])", timeout=WAIT)
    assert f"{file}: float64" in page.inner_text("#banner")
    page.get_by_role("button", name="Close").click()
    state = [0.0, 0.0, 0.15, 0.02]
    policy = hr.export.open_export(file).policy
    # Passes of one state and of many add up in another order.
    assert policy.outputs([state])[0] == pytest.approx(read(page, 0.15, 0.02)["outputs"], rel=1e-12)
    page.click("#exports summary")
    page.click("#export-numpy")
    page.get_by_role("button", name="Leave it").click()


def test_the_numbers_under_the_cursor_are_those_of_the_policy_on_the_map(page: Page) -> None:
    """Before a conflict, while it stands, and when the cursor has left before it."""
    apart, over = "[[-0.3, -0.1], [-0.1, -0.1], [-0.2, 0.1]]", "[[0, 0], [0.3, 0], [0.15, 0.3]]"
    page.fill("textarea", TEXT)
    answered(page)
    held = read(page, 0.15, 0.02)
    assert held["outputs"][1] > 0.9
    page.fill("textarea", TEXT.replace(apart, over))
    answered(page)
    until(lambda: page.inner_text("#probe"))
    before = read(page, 0.15, 0.02)
    assert before["outputs"] == before["before"] == held["before"]
    shown = page.inner_text("#probe").splitlines()
    assert shown[0] == "at phi = 0.15, phi_dot = 0.02"
    assert [float(line.partition("= ")[2]) for line in shown[1:]] == before["outputs"]
    page.mouse.move(5, 5)
    page.fill("textarea", TEXT)
    answered(page)
    assert page.inner_text("#probe") == ""
    for step in range(10):  # faster than it is asked: where the hand rests is asked all the same
        page.mouse.move(*place(page, 0.01 * step, -0.2))
    until(lambda: page.inner_text("#probe").startswith("at phi = 0.09, phi_dot = -0.2\n"))


def read(page: Page, x: float, y: float) -> dict[str, Any]:
    """What the page is told of a state of the policy that its map shows."""
    script = """([x, y]) => {
      const { cursor, held } = window.studio;
      const found = cursor.probed;
      const is_there = found?.state[2] === x && found?.state[3] === y;
      return is_there && found.revision === held.revision ? found : null;
    }"""

    def found() -> object:
        page.mouse.move(*place(page, x, y))  # again: a banner that goes away moves the map
        return page.evaluate(script, [x, y])

    until(found)
    return dict(page.evaluate(script, [x, y]))


def test_the_plane_is_chosen_and_states_are_read_to_the_last_digit(page: Page) -> None:
    page.mouse.move(*place(page, 0.11, 0.05))
    until(lambda: "P(" in page.inner_text("#probe"))
    shown = page.inner_text("#probe").splitlines()[1:]
    total = sum(float(line.partition("=")[2]) for line in shown)
    assert total == pytest.approx(1.0, abs=1e-15)
    page.get_by_label("Observation across").select_option("x")
    page.wait_for_selector("text=Not in this plane.")
    until(lambda: page.evaluate("() => studio.map.field.map.view.across === 0"))
    page.fill("textarea", "nonsense")
    page.wait_for_selector(".message.bad")
    page.click("#whole")
    until(lambda: page.evaluate("() => studio.map.field.map.view.across === 2"))
    assert "The text is not valid." in page.inner_text("#state")
    page.click("#undo")
    answered(page)
    page.get_by_label("Observation across").select_option("x")
    page.wait_for_selector("text=Not in this plane.")
    page.get_by_role("button", name="Go there").first.click()
    page.click("#whole")
    answered(page)


def test_episodes_are_played_before_and_after(page: Page) -> None:
    page.fill("textarea", TEXT)
    answered(page)
    page.click("#tab-behaviour")
    page.get_by_label("Episodes to play").fill("5")
    page.click("#play")
    until(lambda: page.evaluate("() => window.studio.behaviour.played?.done"))
    played = page.evaluate("() => window.studio.behaviour.played")
    assert len(played["scores"]) == len(played["scores_before"]) == 5
    assert len(page.query_selector_all(".path")) == 2
    film = page.locator(".film").get_attribute("src")
    assert film is not None
    assert film.startswith("data:image/gif;base64,R0lGOD")


def test_ten_episodes_are_trained_while_one_watches(page: Page, studio: Studio) -> None:
    page.get_by_label("Episodes to train").fill("10")
    page.click("#train")
    status = "() => window.studio.behaviour.trained.get('with rules')?.status"
    until(lambda: page.evaluate(status) == "done")
    curve = page.evaluate("() => window.studio.behaviour.trained.get('with rules')")
    assert len(curve["scores"]) == 10
    assert max(curve["violations"]) <= 1e-6
    folder = studio.file.parent / "runs" / "lean" / "seed-0"
    assert f"kept in {folder}" in page.inner_text(".trainings")
    assert [one.score for one in hr.Run.open(folder).records()] == curve["scores"]
    page.get_by_label("Run to compare with").select_option(str(folder), timeout=WAIT)
    until(lambda: f"run {folder}: 10 episodes" in page.inner_text(".trainings"))
    assert page.locator(".chart path.run").count() == 3
    page.get_by_label("Episodes to train").fill("100000")
    page.click("#train-free")
    free = "() => window.studio.behaviour.trained.get('without rules')?.status"
    until(lambda: page.evaluate(free) == "running")
    page.click("#pause")
    until(lambda: page.evaluate(free) == "paused")
    page.click("#pause")
    until(lambda: page.evaluate(free) == "running")
    page.click("#stop")
    until(lambda: page.evaluate(free) == "stopped")
    page.click("#forget")
    page.click("#tab-file")
    answered(page)


def test_everything_but_drawing_is_within_reach_of_the_keyboard(page: Page) -> None:
    reached = set()
    page.evaluate("() => document.body.focus()")
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.id"))
    assert {"save", "python", "theme", "tool-box", "layer", "cells", "tab-file"} <= reached
    nameless = """() => {
      const all = [...document.querySelectorAll("button, input, select, textarea, [tabindex]")];
      const named = (one) => one.textContent.trim() || one.getAttribute("aria-label");
      return all.filter((one) => !(named(one) || one.labels?.length)).map((one) => one.outerHTML);
    }"""
    assert page.evaluate(nameless) == []
