"""What commands print as a table. Names are text in it, whatever they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import handrail as hr
from handrail._text import visible

if TYPE_CHECKING:
    from rich.table import Table


_STYLES = {"certified": "green", "counterexample": "red", "unknown": "yellow"}


def environments_table() -> Table:
    """The bundled constraint files."""
    table = _table("Bundled constraint files")
    for column in ("name and environment", "where", "pass", "what it holds"):
        table.add_column(
            column,
            justify="right" if column in ("where", "pass") else "left",
            no_wrap=column != "what it holds",
            overflow="fold",
        )
    for one in hr.rulebook.overviews():
        _add(
            table,
            f"{one.name}\n  {one.environment}",
            _places(one),
            "–" if one.pass_mark is None else f"{one.pass_mark:g}",
            one.description,
        )
    return table


def certificates_table(title: str, certificates: Sequence[hr.Certificate]) -> Table:
    """A line per constraint: whether it is proven, and how far from its bound it stays."""
    allowed = certificates[0].tolerance
    caption = (
        "worst case: certified for every state of the place; of a counterexample, its state and "
        "violation."
    )
    if allowed:
        caption = f"Violations up to {allowed:g} were allowed. {caption}"
    table = _table(title, caption)
    for column in ("constraint", "bound", "status", "worst case", "cells", "seconds"):
        table.add_column(column, justify="left" if column in ("constraint", "status") else "right")
    for one in certificates:
        _add(
            table,
            one.name,
            hr.constraints.bound_in_words(one.lower, one.upper),
            one.status,
            _worst_case(one),
            f"{one.cells:,}",
            f"{one.seconds:.2f}",
            style=_STYLES[one.status],
        )
    return table


def edit_table(
    title: str,
    result: hr.Edit,
    rulebook: hr.Rulebook,
    own: tuple[hr.Violations, hr.Violations] | None,
) -> Table:
    """What was asked of a policy, and what else that changed.

    Args:
        title: which policy.
        result: of its edit.
        rulebook: names its actions.
        own: of the constraints that it obeyed before, if it had any: before and after the edit.
    """
    effects, enforcement = result.side_effects, result.enforcement
    table = _table(title, show_header=False)
    rows = [f"{broken(one, result)} of {len(one)}" for one in (result.before, result.after)]
    _add(table, "violated rows", " → ".join(rows))
    before, after = result.before.worst_violation, enforcement.worst_violation
    _add(table, "worst violation", f"{before:+.1e} → {after:+.1e}")
    if enforcement.certificates:
        _add(table, "regions proven", f"{len(enforcement.certificates)}")
    if own is not None:
        rows = [f"{broken(one, result)} of {len(one)}" for one in own]
        _add(table, "violated rows of its own", " → ".join(rows))
    _add(table, "iterations", str(enforcement.iterations))
    _add(table, "change of the weights", f"{result.relative_change:.2%}")
    table.add_section()
    _add(table, "reference states", f"{effects.states:,}, {effects.origin}")
    what = f"the {rulebook.quantity.name} of {rulebook.actions[effects.action]}"
    _add(table, "largest change", f"{effects.largest_change:.2g} of {what}")
    _add(table, "  at", hr.constraints.state_in_words(effects.at))
    _add(table, "mean change", f"{effects.mean_change:.2g}")
    if effects.share_of_changed_choices is not None:
        _add(table, "other choice at", f"{effects.share_of_changed_choices:.2%} of the states")
    return table


def broken(found: hr.Violations, result: hr.Edit) -> int:
    """How many rows are violated, by the tolerance of an edit."""
    return found.broken(result.tolerance)


def _worst_case(one: hr.Certificate) -> str:
    if one.state is not None:
        import numpy as np

        return f"{one.violation:+.1e} at {hr.constraints.state_in_words(np.array(one.state))}"
    if one.status == "unknown":
        return one.reason
    low = "" if one.lowest is None else f"≥ {one.lowest:.6f}"
    high = "" if one.highest is None else f"≤ {one.highest:.6f}"
    return f"{low} {high}".strip()


def on_region(constraint: hr.Constraint) -> bool:
    """Whether a constraint holds on infinitely many states."""
    return isinstance(constraint, hr.constraints.PlacedConstraint) and constraint.region is not None


def _places(overview: hr.rulebook.Overview) -> str:
    """'18 states', '6 regions', '3 states, 1 region'."""
    counts = {"state": overview.states, "region": overview.regions}
    return ", ".join(f"{n} {word}{'s' * (n > 1)}" for word, n in counts.items() if n)


def _table(title: str, caption: str = "", show_header: bool = True) -> Table:
    from rich.table import Table

    return Table(
        title=visible(title),
        title_justify="left",
        caption=caption or None,
        caption_justify="left",
        show_header=show_header,
    )


def _add(table: Table, *cells: str, style: str | None = None) -> None:
    table.add_row(*map(visible, cells), style=style)
