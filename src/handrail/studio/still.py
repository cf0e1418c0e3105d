"""The page without a server: one file with everything in it, to look at and to send.

The same modules draw it. What a server would compute is computed now: the policy over the plane of
the file and over parallel ones, the cells of its proof, and every curve that was recorded.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from handrail._package import VERSION
from handrail._storage import write_atomically
from handrail._text import html_text
from handrail._types import Array
from handrail.executors import computing_versions
from handrail.report import Plane, summarise_runs, write_pictures
from handrail.rulebook import Rulebook
from handrail.runs import Run, make_policy
from handrail.studio.cards import cards_of, names_of
from handrail.studio.engine import Target
from handrail.studio.messages import Shape
from handrail.studio.sketch import shapes_of
from handrail.studio.stage import map_over, view_of
from handrail.studio.trainer import curve_of
from handrail.studio.workbench import Workbench

# States along each axis of the map, and parallel planes along each other observation.
_COUNT, _SLICES = 61, 7

# Numbers of all maps together; of more observations there are fewer planes.
_MOST_NUMBERS = 1_500_000

_MODULES = (
    "charts.js",
    "colours.js",
    "contour.js",
    "download.js",
    "elements.js",
    "map.js",
    "rules.js",
    "scale.js",
    "shapes.js",
    "still.js",
)


def write_page(runs: Sequence[Run], path: str | Path, plane: Plane | None = None) -> Path:
    """Write a page about runs of one constraint file: one file that needs nothing else.

    Args:
        runs: that have recorded something; the policy that is shown is that of the first one.
        path: of the page.
        plane: to show the policy over; by default `Plane.of(rulebook)`.

    Returns:
        The path.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, page_of(runs, plane).encode())
    return target


def write_report(runs: Sequence[Run], folder: str | Path) -> Path:
    """Write the pictures of runs into a folder, and the page beside them; returns its path."""
    write_pictures(runs, folder)
    return write_page(runs, Path(folder) / "index.html")


def page_of(runs: Sequence[Run], plane: Plane | None = None) -> str:
    """The text of such a page."""
    table = summarise_runs(runs)._repr_html_()
    return page_with(runs[0].rulebook, table, data_of(runs, plane))


def page_with(book: Rulebook, table: str, data: Mapping[str, Any]) -> str:
    """A page about a file: with a table that is HTML already, and what its modules draw."""
    folder = resources.files("handrail.studio") / "page"
    files = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in _MODULES}
    imports = {f"studio/{name}": _address(text) for name, text in files.items()}
    parts = {
        "TITLE": html_text(book.name),
        "STYLE": folder.joinpath("style.css").read_text(encoding="utf-8"),
        "IMPORTS": _script_text({"imports": imports}),
        "DATA": _script_text(data),
        "TABLE": table,
        "WORDS": "".join(f"<li>{html_text(sentence)}</li>" for sentence in book.sentences),
        "FILE": html_text(book.text),
    }
    template = folder.joinpath("still.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _address(text: str) -> str:
    """A module as an address; what it imports are names in the page's map of imports."""
    named = re.sub(r'from "\./(\w+\.js)"', r'from "studio/\1"', text)
    return f"data:text/javascript;base64,{base64.b64encode(named.encode()).decode()}"


def _script_text(value: Any) -> str:
    """JSON that ends no script, whatever names are in it."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def data_of(runs: Sequence[Run], plane: Plane | None = None) -> dict[str, Any]:
    """What the page shows, as plain values."""
    run = runs[0]
    book = run.rulebook
    curves = [
        curve_of(f"seed {one.seed}", one.rulebook.settings.episodes, one.records(), "done")
        for one in runs
    ]
    data: dict[str, Any] = {
        "made": datetime.now().isoformat(" ", "minutes"),
        "versions": {"handrail": VERSION, **computing_versions()},
        "names": names_of(book).model_dump(),
        "settings": json.loads(book.settings.model_dump_json()),
        "curves": [one.model_dump() for one in curves],
        "losses": [[record.batch_loss for record in one.records()] for one in runs],
        "verdicts": [],
        "cards": [],
        "slices": [],
    }
    if len(book.observations) > 1:
        data |= _looked_at(run, Plane.of(book) if plane is None else plane)
    elif book.parts:
        data["proof"] = f"No map: the numbers of {book.declared_observations} have no names."
    finite: dict[str, Any] = _finite(data)
    return finite


def _looked_at(run: Run, plane: Plane) -> dict[str, Any]:
    """The policy over planes, and what is known of every constraint."""
    book = run.rulebook
    bench = Workbench(Target(book.text, book.name, run.folder, book.arrays))
    bench.draw(0, book.text, view_of(plane))
    found = bench.as_it_is(0)
    proof = bench.prove(0, lambda: None)
    env = book.make_environment()
    first = make_policy(book, env)
    env.close()
    policy = run.agent().policy
    shapes = _untouchable(shapes_of(book, plane))
    planes = _planes(book, plane, _slices(book))
    return {
        "cards": [one.model_dump() for one in cards_of(book, shapes)],
        "verdicts": [one.model_dump() for one in found.verdicts],
        "proven": [one.model_dump() for one in proof.verdicts],
        "proof": proof.words,
        "slices": [
            {
                "along": along,
                "shapes": [one.model_dump() for one in _untouchable(shapes_of(book, one_plane))],
                "cells": [one.model_dump() for one in bench.cells(one_plane)],
                "map": map_over(one_plane, policy, _COUNT).model_dump(),
                "before": map_over(one_plane, first, _COUNT).model_dump(),
            }
            for along, one_plane in planes
        ],
    }


def _slices(book: Rulebook) -> int:
    """Along each other observation: fewer, where there are many."""
    others = max(len(book.observations) - 2, 1)
    each = 2 * _COUNT**2 * len(book.actions)
    return int(min(_SLICES, max(1, _MOST_NUMBERS // (each * others))))


def _planes(book: Rulebook, plane: Plane, count: int) -> list[tuple[int, Plane]]:
    """The plane, and parallel ones, with the observation along which each was moved (-1: none)."""
    planes = [(-1, plane)]
    low, high = _extent(book)
    for index in range(len(book.observations)):
        if index in (plane.horizontal, plane.vertical):
            continue
        middle = plane.at[index]
        reach = max(abs(low[index] - middle), abs(high[index] - middle), 0.5)
        for value in np.linspace(middle - reach, middle + reach, count):
            at = list(plane.at)
            at[index] = float(value)
            planes.append((index, replace(plane, at=tuple(at))))
    return planes


def _extent(book: Rulebook) -> tuple[Array, Array]:
    """Lowest and highest of every observation that constraints speak of."""
    states = [one.states.reshape(len(one.states), -1) for one in book.constraints]
    together = np.concatenate(states)
    return together.min(axis=0), together.max(axis=0)


def _untouchable(shapes: Sequence[Shape]) -> list[Shape]:
    """Without handles: there is nobody to change anything."""
    return [one.model_copy(update={"handles": [], "vertices": None}) for one in shapes]


def _finite(value: Any) -> Any:
    """What is no number is null, as in every JSON of ours."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
