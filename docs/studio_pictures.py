"""Takes the pictures of the studio in the docs, in Chromium: `python docs/studio_pictures.py`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from math import cos, pi, sin
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

PICTURES = Path(__file__).resolve().parent / "pictures"
_SIZE = {"width": 1280, "height": 720}

# Of the film: its width, frames along the way of the hand, and milliseconds of each.
_WIDTH, _FRAMES, _PACE, _REST = 960, 26, 130, 1500

_ANSWERED = """() => {
  const { document, drawing, held } = window.studio;
  return Boolean(held) && document.revision === drawing.revision
    && document.revision === held.revision;
}"""
_PROVEN = "() => window.studio.proof?.revision === window.studio.document.revision"
_PLAYED = "() => window.studio.behaviour.played?.done"
_READ = "() => document.getElementById('probe').textContent.length > 1"
_PLACE = """([x, y]) => {
  const { map } = window.studio;
  const box = map.place.getBoundingClientRect();
  return [box.left + map.x.pixel(x), box.top + map.y.pixel(y)];
}"""


@contextmanager
def studio(browser: Browser, name: str) -> Iterator[Page]:
    """A page on a bundled file, in a folder that is deleted again."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "handrail", "studio", name, "--no-browser"]
        own = {**os.environ, "XDG_STATE_HOME": folder}
        process = subprocess.Popen(
            command, cwd=folder, env=own, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert process.stdout is not None
        found = re.search(r"http\S+", process.stdout.readline())
        assert found is not None
        page = browser.new_page(viewport=_SIZE, color_scheme="light")  # type: ignore[arg-type]
        try:
            page.goto(found[0])
            wait(page, _ANSWERED, _PROVEN)
            yield page
        finally:
            page.close()
            process.send_signal(signal.SIGINT)
            process.wait()


def wait(page: Page, *conditions: str) -> None:
    """Until all of them are so."""
    time.sleep(0.2)  # until what a hand did has reached the server
    for condition in conditions:
        page.wait_for_function(condition, timeout=180_000)


def go(page: Page, x: float, y: float) -> None:
    """The hand to a point of the plane."""
    page.mouse.move(*page.evaluate(_PLACE, [x, y]), steps=4)


def look(browser: Browser) -> None:
    """The six regions of the paper; a conflict of two of them."""
    with studio(browser, "cartpole_regions") as page:
        page.locator(".card").nth(1).click(position={"x": 8, "y": 40})
        go(page, 0.05, 0.1)
        wait(page, _READ)
        page.screenshot(path=PICTURES / "studio.png")
        go(page, -0.33, 0.02)
        page.mouse.down()
        go(page, 0.22, 0.05)
        page.mouse.up()
        wait(page, _ANSWERED, _READ)
        page.screenshot(path=PICTURES / "studio_conflict.png")


def behave(browser: Browser) -> None:
    """Episodes before and after."""
    with studio(browser, "cartpole_regions") as page:
        page.click("#tab-behaviour")
        page.get_by_label("Episodes to play").fill("10")
        page.click("#play")
        wait(page, _PLAYED)
        time.sleep(1.0)  # until the film has begun
        page.screenshot(path=PICTURES / "studio_behaviour.png")


def film(browser: Browser) -> None:
    """A disk is led around by a hand, and proven where it rests."""
    with studio(browser, "cartpole_disks") as page:
        frames = [frame(page)]
        go(page, 0.2, 0.2)
        page.mouse.down()
        for step in range(1, _FRAMES + 1):
            turn = 2.0 * pi * step / _FRAMES
            go(page, 0.2 + 0.09 * sin(turn), 0.2 - 0.12 * (1.0 - cos(turn)))
            wait(page, _ANSWERED)
            frames.append(frame(page))
        page.mouse.up()
        wait(page, _ANSWERED, _PROVEN)
        frames.append(frame(page))
    pace = [_REST, *[_PACE] * _FRAMES, _REST]
    colours = frames[0].quantize(128)
    shown = [one.quantize(palette=colours, dither=Image.Dither.NONE) for one in frames]
    shown[0].save(
        PICTURES / "studio.gif", save_all=True, append_images=shown[1:], duration=pace, loop=0
    )


def frame(page: Page) -> Image.Image:
    """What is seen at present."""
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
    return picture.resize((_WIDTH, _WIDTH * picture.height // picture.width))


def main() -> None:
    """All of them."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for take in (look, behave, film):
            take(browser)
        browser.close()


if __name__ == "__main__":
    main()
