"""Answers that are the same everywhere, written down beforehand.

To make them takes several times as long as all else that a command does at its start. `make docs`
writes them; a test says when that is due.
"""

from __future__ import annotations

from pathlib import Path

import handrail as hr
from handrail._text import visible
from handrail.cli.console import in_json

SCHEMA, ENVIRONMENTS = "constraints.schema.json", "environments.txt"
ENVIRONMENTS_JSON = "environments.json"

FOLDER = Path(__file__).parent / "texts"


def answer(name: str) -> str:
    """What was written down."""
    return (FOLDER / name).read_text(encoding="utf-8")


def make_answers() -> dict[str, str]:
    """Every answer by its name, as the library gives it now."""
    found = hr.rulebook.overviews()
    return {
        SCHEMA: in_json(hr.rulebook.json_schema()),
        ENVIRONMENTS: "".join(f"{visible(str(one))}\n" for one in found),
        ENVIRONMENTS_JSON: in_json(found),
    }
