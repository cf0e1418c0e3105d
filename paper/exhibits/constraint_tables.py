"""The paper's four tables of constraints, row by row beside what our constraint files say."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from importlib import resources

import numpy as np

from handrail.constraints import AtLeast, AtMost, Constraint
from handrail.regions import Region
from handrail.rulebook import Rulebook, load_rulebook
from paper.exhibit import Content, Exhibit, Finding, Table
from paper.results import Results

_BOUND = ("action", "sense", "bound")
Row = Mapping[str, str]
Statement = dict[str, str]  # column of the paper's table -> what a constraint says there


def paper_table(name: str) -> list[dict[str, str]]:
    """The rows of a table as the paper prints them, with our names of observations and actions."""
    file = resources.files("paper") / "tables" / f"{name}.csv"
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def _bound(book: Rulebook, constraint: Constraint, action: str) -> Statement:
    """What a constraint says of an action; of two actions, one says it of the other."""
    assert isinstance(constraint, AtLeast | AtMost)
    assert isinstance(constraint.action, int)
    named, bound = book.actions[constraint.action], constraint.bound
    assert isinstance(bound, float)
    sense = ">=" if isinstance(constraint, AtLeast) else "<="
    if named != action and len(book.actions) == 2:
        named, bound, sense = action, 1.0 - bound, "<=" if sense == ">=" else ">="
    return {"action": named, "sense": sense, "bound": f"{bound:.6g}"}


def _at_points(book: Rulebook, rows: Sequence[Row]) -> list[Statement]:
    """A row per constrained state, each where the paper has the one that is most like it.

    The file keeps what asks for the same action together, the paper what concerns the same height.
    """
    left = [
        {
            **{name: f"{v:g}" for name, v in zip(book.observations, state, strict=True)},
            **_bound(book, constraint, rows[0]["action"]),
        }
        for constraint in book.constraints
        for state in constraint.states
    ]
    statements = []
    for row in rows:
        statements.append(min(left, key=lambda one: len(_differences(row, one))))
        left.remove(statements[-1])
    return statements


def _differences(row: Row, stated: Statement) -> list[str]:
    """The columns in which they differ; what the paper's table leaves out is 0."""
    return [name for name in stated if not _same(row.get(name, "0"), stated[name])]


def _on_disks(book: Rulebook, rows: Sequence[Row]) -> list[Statement]:
    """Centre and radius of each region."""
    statements = []
    for row, constraint in zip(rows, book.constraints, strict=True):
        low, high = _region(constraint).bounds
        centre = 0.5 * (low + high)
        statements.append(
            {
                **{name: f"{v:.6g}" for name, v in zip(book.observations, centre, strict=True)},
                "radius": f"{0.5 * (high - low).max():.6g}",
                **_bound(book, constraint, row["action"]),
            }
        )
    return statements


def _on_polygons(book: Rulebook, rows: Sequence[Row]) -> list[Statement]:
    """The range of x and the corners of each region, each next to the paper's nearest."""
    statements = []
    for row, constraint in zip(rows, book.constraints, strict=True):
        region = _region(constraint)
        low, high = region.bounds
        values = {"x_low": f"{low[0]:g}", "x_high": f"{high[0]:g}", "x_dot": f"{low[1]:g}"}
        corners = np.unique(np.round(region.corners[:, 2:], 9), axis=0)
        for number in range(1, 5):
            printed = np.array([float(row[f"phi_{number}"]), float(row[f"phi_dot_{number}"])])
            nearest = corners[np.abs(corners - printed).sum(axis=1).argmin()]
            values[f"phi_{number}"], values[f"phi_dot_{number}"] = (f"{v:g}" for v in nearest)
        statements.append({**values, **_bound(book, constraint, row["action"])})
    return statements


def _region(constraint: Constraint) -> Region:
    assert isinstance(constraint, AtLeast | AtMost)
    assert constraint.region is not None
    return constraint.region


def _compared(
    file: str, table: str, ours: Callable[[Rulebook, Sequence[Row]], list[Statement]], why: str
) -> tuple[Table, Finding]:
    rows = paper_table(table)
    statements = ours(load_rulebook(file), rows)
    places = [name for name in rows[0] if name not in ("row", *_BOUND)]
    cells, differing = [], []
    for row, one in zip(rows, statements, strict=True):
        different = _differences(row, one)
        if different:
            differing.append(row["row"])
        cells.append(
            [
                row["row"],
                *(row[name] for name in places),
                _bound_in_words(row),
                "the same"
                if not different
                else "; ".join(f"{name}: {one[name]}" for name in different),
            ]
        )
    measured = f"{len(rows) - len(differing)} of {len(rows)} rows of {file}.yaml are the same"
    if differing:
        measured += f"; others: {', '.join(differing)}"
    header = ["row", *places, "the paper requires", f"{file}.yaml"]
    found = Finding(
        f"The rows of {file}.yaml beside the paper's.", measured, why if differing else ""
    )
    return Table(f"The paper's table, and {file}.yaml where it differs.", header, cells), found


def _same(printed: str, stated: str) -> bool:
    try:
        return abs(float(printed) - float(stated)) < 1e-9
    except ValueError:
        return printed == stated


def _bound_in_words(row: Row) -> str:
    sense = "≥" if row["sense"] == ">=" else "≤"
    return f"π({row['action']}) {sense} {row['bound']}"


def _cartpole(_: Results) -> Content:
    why = (
        "s10 is printed as ≤ 0.95. Its eight mirror rows say ≥ 0.95, and so does the authors' "
        "implementation: a misprint."
    )
    table, found = _compared("cartpole", "cartpole", _at_points, why)
    return Content(findings=(found,), tables=(table,))


def _regions(_: Results) -> Content:
    table, found = _compared("cartpole_regions", "cartpole_regions", _on_polygons, "")
    return Content(findings=(found,), tables=(table,))


def _disks(_: Results) -> Content:
    table, found = _compared("cartpole_disks", "cartpole_disks", _on_disks, "")
    return Content(findings=(found,), tables=(table,))


def _lunar_lander(_: Results) -> Content:
    why = (
        "The 0.1 and -0.1 are printed under the vertical velocity; the text speaks of the "
        "horizontal one, and the signs mirror x. lunar_lander_literal.yaml takes the table at its "
        "word; Figure 11 compares both."
    )
    table, found = _compared("lunar_lander", "lunar_lander", _at_points, why)
    literal, same = _compared("lunar_lander_literal", "lunar_lander", _at_points, "")
    return Content(findings=(found, same), tables=(table, literal))


DISKS_TABLE = Exhibit("disks-table", "Table 1", "The four disks", _disks)
CONSTRAINT_TABLES = (
    Exhibit("table-cartpole", "Table 2", "Constrained states in Cartpole", _cartpole),
    Exhibit("table-regions", "Table 3", "Constrained regions in Cartpole", _regions),
    Exhibit("table-lunar-lander", "Table 4", "Constrained states in Lunar Lander", _lunar_lander),
)
