"""What people see: text as it is, whatever a constraint file puts into it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from handrail.cli.console import complain, note, say, say_json
from tests.cli.conftest import Caller
from tests.cli.test_prove import LEANING

# Markup of rich, of a page and of formulas, an order to the terminal, and an emoji's name.
HOSTILE = "[/] [red]<script>alert(1)</script> $x$ \x1b[31m :smile: \u202e"
SHOWN = r"[/] [red]<script>alert(1)</script> $x$ \x1b[31m :smile: \u202e"
IN_YAML = HOSTILE.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")


def test_text_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    long = "a/path/" * 40
    say(f"{long}{HOSTILE}")
    note(HOSTILE)
    complain(HOSTILE)
    captured = capsys.readouterr()
    assert captured.out == f"{long}{SHOWN}\nnote: {SHOWN}\n"
    assert captured.err == f"error: {SHOWN}\n"


@dataclass(frozen=True)
class Found:
    path: Path
    numbers: tuple[float, ...]
    array: object


def test_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    found = Found(Path("a/b"), (1.5, float("nan"), float("-inf")), np.arange(4).reshape(2, 2))
    say_json({"found": found, 3: np.float64(0.25), "name": HOSTILE, "yes": np.bool_(True)})
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "found": {"path": "a/b", "numbers": [1.5, None, None], "array": [[0, 1], [2, 3]]},
        "3": 0.25,
        "name": HOSTILE,
        "yes": True,
    }
    assert "\x1b" not in captured.out


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A constraint file with names that nobody should believe."""
    file = tmp_path_factory.mktemp("hostile") / "hostile.yaml"
    text = LEANING.replace("lean right", f'"{IN_YAML}"').replace("lean left", f'"left {IN_YAML}"')
    file.write_text(f'description: "{IN_YAML}"\n{text}')
    return file


def test_names_of_a_file_are_text_everywhere(hostile: Path, handrail: Caller) -> None:
    folder = hostile.parent / "group"
    run = folder / "seed-0"
    said = {}
    calls: dict[str, tuple[str | Path, ...]] = {
        "check": (hostile,),
        "train": (hostile, "--out", folder, "--jobs", "1"),
        "evaluate": (run, "--episodes", "1"),
        "prove": (run, "--tolerance", "1e-6"),
        "edit": (run, "--constraints", hostile, "--out", folder / "edited.safetensors"),
        "show": (run,),
    }
    for command, arguments in calls.items():
        code, said[command], _ = handrail(command, *arguments)
        assert code == 0
        assert "\x1b" not in said[command]
        assert "\u202e" not in said[command]
    for name in ("check", "train", "evaluate", "prove"):
        assert SHOWN in said[name], name
    page = (folder / "report" / "index.html").read_text()
    assert not set(page) & {"\x1b", "\u202e"}
    assert "<script>" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 2  # in both rules
    assert (folder / "report" / "proof.png").exists()


def test_errors_show_names_as_text(hostile: Path, handrail: Caller) -> None:
    torn = hostile.with_name("torn.yaml")
    torn.write_text(hostile.read_text().replace("right >= 0.9", "right >= 90"))
    code, _, error = handrail("check", torn)
    assert code == 2
    assert "\x1b" not in error
    code, _, error = handrail("check", f"no/{HOSTILE}.yaml")
    assert code == 2
    assert "\x1b" not in error
    assert "[red]<script>" in error
