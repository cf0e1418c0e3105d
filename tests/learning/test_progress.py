"""How far learning has come, where somebody can see it."""

from __future__ import annotations

import io
import sys
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from handrail.errors import InvalidArgument
from handrail.learning import progress
from handrail.learning.progress import goal_of, progress_line
from handrail.learning.reinforce import Reinforce
from tests.conftest import small_policy
from tests.support.environments import corridor


def learn(console: Console, monkeypatch: pytest.MonkeyPatch, shown: bool = True) -> None:
    monkeypatch.setattr(progress, "Console", lambda **_: console)
    Reinforce(corridor(), small_policy(2, 2)).learn(episodes=3, progress_bar=shown)


def test_a_terminal_shows_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    learn(Console(file=text, force_terminal=True, width=100), monkeypatch)
    assert "learning" in text.getvalue()
    assert "3/3" in text.getvalue()
    assert "score " in text.getvalue()


@pytest.mark.parametrize("shown", [True, False])
def test_a_file_gets_nothing(monkeypatch: pytest.MonkeyPatch, shown: bool) -> None:
    text = io.StringIO()
    learn(Console(file=text, force_terminal=not shown), monkeypatch, shown)
    assert text.getvalue() == ""


class Notebook:
    """Stands in for IPython and its widgets, as rich uses them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, widgets: bool) -> None:
        self.shown: list[str] = []
        display, ipywidgets = ModuleType("IPython.display"), ModuleType("ipywidgets")
        vars(display)["display"] = self.display
        vars(ipywidgets)["Output"] = self.output
        monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
        monkeypatch.setitem(sys.modules, "IPython.display", display)
        monkeypatch.setitem(sys.modules, "ipywidgets", ipywidgets if widgets else None)
        monkeypatch.setattr(progress, "find_spec", lambda _: "a spec" if widgets else None)

    def display(self, one: Any, raw: bool = False, display_id: bool = False) -> Notebook:
        self.shown.append(one["text/plain"] if raw else getattr(one, "text", ""))
        return self

    def update(self, one: Any, raw: bool) -> None:
        self.display(one, raw)

    def output(self) -> Any:
        class Output:
            def __enter__(self) -> Output:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def clear_output(self, wait: bool) -> None:
                """What comes next replaces it."""

        return Output()


def test_a_notebook_shows_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch, widgets=True)
    learn(Console(force_jupyter=True, width=100), monkeypatch)
    lines = [one for one in notebook.shown if "learning" in one]
    assert "3/3" in lines[-1]
    assert "score " in lines[-1]


def test_a_notebook_without_widgets_shows_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch, widgets=False)
    learn(Console(force_jupyter=True, width=100), monkeypatch)
    assert notebook.shown[0] == "learning"
    assert notebook.shown[-1].startswith("learning, 3 of 3 episodes: score ")
    assert len(notebook.shown) <= 4


def test_goals() -> None:
    assert goal_of(5, None).done(episodes=7, steps=100) == 5
    assert goal_of(None, 50).done(episodes=7, steps=30) == 30
    for given in ((None, None), (1, 1)):
        with pytest.raises(InvalidArgument, match="either episodes=… or timesteps=…"):
            goal_of(*given)
    with pytest.raises(InvalidArgument, match="timesteps must be a positive whole number, but got"):
        goal_of(None, 0)
    with progress_line(goal_of(1, None), shown=False) as advance:
        advance([], 1)
