"""Answers that are the same everywhere, written down beforehand.

To make them takes several times as long as all else that a command does at its start. `make docs`
writes them; a test says when that is due.
"""

from __future__ import annotations

import json
from pathlib import Path

import handrail as hr
from handrail._text import visible

SCHEMA, ENVIRONMENTS = "constraints.schema.json", "environments.txt"

FOLDER = Path(__file__).parent / "texts"


def answer(name: str) -> str:
    """What was written down."""
    return (FOLDER / name).read_text(encoding="utf-8")


def make_answers() -> dict[str, str]:
    """Every answer by its name, as the library gives it now."""
    schema = json.dumps(hr.rulebook.json_schema(), indent=2, ensure_ascii=False)
    environments = "\n".join(visible(str(one)) for one in hr.rulebook.overviews())
    return {SCHEMA: f"{schema}\n", ENVIRONMENTS: f"{environments}\n"}
