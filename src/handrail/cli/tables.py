"""What commands print."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from handrail.cli.options import on_region
from handrail.constraints import Constraint
from handrail.report import GroupSummary, Spread
from handrail.rulebook import bundled, load_rulebook


def summary_table(summary: GroupSummary, pass_mark: float | None) -> Table:
    """A line per seed, then the numbers over seeds."""
    table = Table(title_justify="left")
    columns = ("seed", "episodes", "first 100", "last 100", "passes from", "worst violation")
    for column in columns:
        table.add_column(column, justify="right")
    for one in summary.seeds:
        table.add_row(
            str(one.seed),
            str(one.episodes),
            f"{one.first:.1f}",
            f"{one.last:.1f}",
            "–" if one.to_pass is None else f"episode {one.to_pass}",
            "–" if one.worst_violation is None else f"{one.worst_violation:+.1e}",
        )
    if len(summary.seeds) > 1:
        table.add_section()
        first, last = summary.first, summary.last
        worst = summary.worst_violation
        table.add_row(
            "mean",
            "",
            _mean(first),
            _mean(last),
            _passed(summary),
            "–" if worst is None else f"{worst:+.1e}",
        )
        table.add_row("IQM", "", _iqm(first), _iqm(last), "", "")
    caption = "first 100 / last 100: average score. worst violation: of any policy that acted."
    if pass_mark is not None:
        caption += f" passes from: where the first 100-episode average of {pass_mark:g} begins."
    if len(summary.seeds) > 1:
        caption += " IQM: interquartile mean with its 95 % bootstrap interval."
    table.caption = caption
    table.caption_justify = "left"
    return table


def environments_table() -> Table:
    """The bundled constraint files."""
    table = Table(title="Bundled constraint files", title_justify="left")
    for column in ("name and environment", "where", "pass", "what it holds"):
        number = column in ("where", "pass")
        table.add_column(
            column,
            justify="right" if number else "left",
            no_wrap=column != "what it holds",
            overflow="fold",
        )
    for name in bundled():
        book = load_rulebook(name)
        table.add_row(
            f"{name}\n  {book.environment.id}",
            _places(book.constraints),
            "–" if book.pass_mark is None else f"{book.pass_mark:g}",
            book.description,
        )
    return table


def _places(constraints: Sequence[Constraint]) -> str:
    """'18 states', '6 regions', '3 states, 1 region'."""
    n_states = sum(len(one.states) for one in constraints if not on_region(one))
    counts = {"state": n_states, "region": sum(map(on_region, constraints))}
    return ", ".join(f"{n} {word}{'s' * (n > 1)}" for word, n in counts.items() if n)


def _mean(one: Spread) -> str:
    return f"{one.mean:.1f} ± {one.deviation:.1f}"


def _iqm(one: Spread) -> str:
    return f"{one.iqm:.1f} [{one.interval[0]:.1f}, {one.interval[1]:.1f}]"


def _passed(summary: GroupSummary) -> str:
    starts = [one.to_pass for one in summary.seeds if one.to_pass is not None]
    if not starts:
        return "–"
    return f"{len(starts)} of {len(summary.seeds)}, by {max(starts)}"
