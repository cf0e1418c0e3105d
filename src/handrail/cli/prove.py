"""`handrail prove` and `handrail verify`: certificates of runs."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from handrail.constraints import Constraint, bound_in_words, state_in_words
from handrail.errors import HandrailError
from handrail.policies import Policy
from handrail.proof import Budget, Certificate, certify, verify_certificates, write_certificates
from handrail.runs import Run, only_run, open_runs

CERTIFICATE = "certificate.json"


_FIRST_WORD_AFTER = 1.0  # seconds: shorter proofs need no progress


out = Console()


Cells = Annotated[int, typer.Option(min=1, help="Give up after so many cells per bound.")]


Seconds = Annotated[float, typer.Option(min=0.0, help="Give up after so long per bound.")]


def prove(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run, or a group of runs.")],
    tolerance: Annotated[
        float, typer.Option(min=0.0, help="Violations up to this are allowed.")
    ] = 0.0,
    cells: Cells = 200_000,
    seconds: Seconds = 60.0,
) -> None:
    """Prove that a run's constraints hold at every state, and write a certificate."""
    open_cases = 0
    for run in open_runs(folder):
        policy, constraints = _subject(run)
        found = [_prove(policy, one, tolerance, Budget(cells, seconds)) for one in constraints]
        target = run.folder / CERTIFICATE
        write_certificates(target, policy, constraints, found)
        certified = sum(one.certified for one in found)
        out.print(_table(f"seed {run.seed}", found))
        out.print(f"{certified} of {len(found)} certified: {target}", highlight=False)
        open_cases += len(found) - certified
    if open_cases:
        raise typer.Exit(1)


def verify(
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="A JSON file.")],
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run it is about.")],
    cells: Cells = 200_000,
    seconds: Seconds = 60.0,
) -> None:
    """Prove a certificate again; another file, other weights or constraints are an error."""
    run = only_run(folder, "A certificate is about one run")
    policy, constraints = _subject(run)
    budget = Budget(cells, seconds)
    found = verify_certificates(
        certificate,
        policy,
        constraints,
        lambda constraint, tolerance: _prove(policy, constraint, tolerance, budget),
    )
    out.print(_table(f"seed {run.seed}, proven again", found))
    if not all(one.certified for one in found):
        raise HandrailError(f"{certificate} is genuine, but does not certify every constraint.")
    within = f" within {found[0].tolerance:g}" if found[0].tolerance else ""
    out.print(f"[green]{certificate} holds{within}.[/]", highlight=False)


def _subject(run: Run) -> tuple[Policy, tuple[Constraint, ...]]:
    return run.agent().policy, run.rulebook.constraints


def _prove(policy: Policy, constraint: Constraint, tolerance: float, budget: Budget) -> Certificate:
    """One constraint, with a line about the progress of long proofs."""
    start = monotonic()
    with out.status("") as status:
        status.stop()

        def watch(proven: int, left: int) -> None:
            if monotonic() - start > _FIRST_WORD_AFTER:
                status.update(f"{constraint.name}: {proven:,} cells proven, {left:,} open")
                status.start()

        return certify(policy, constraint, tolerance=tolerance, budget=budget, watch=watch)


def _table(title: str, certificates: list[Certificate]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("constraint", "bound", "status", "worst case", "cells", "seconds"):
        table.add_column(column, justify="left" if column in ("constraint", "status") else "right")
    for one in certificates:
        table.add_row(
            one.name,
            bound_in_words(one.lower, one.upper),
            f"[{_STYLES[one.status]}]{one.status}[/]",
            _worst_case(one),
            f"{one.cells:,}",
            f"{one.seconds:.2f}",
        )
    allowed = certificates[0].tolerance
    table.caption = (
        (f"Violations up to {allowed:g} were allowed. " if allowed else "")
        + "worst case: certified for every state of the place; of a counterexample, its state and "
        "violation."
    )
    table.caption_justify = "left"
    return table


_STYLES = {"certified": "green", "counterexample": "red", "unknown": "yellow"}


def _worst_case(one: Certificate) -> str:
    if one.state is not None:
        state = state_in_words(np.array(one.state))
        return f"{one.violation:+.1e} at {state}"
    if one.status == "unknown":
        return one.reason
    low = "" if one.lowest is None else f"≥ {one.lowest:.6f}"
    high = "" if one.highest is None else f"≤ {one.highest:.6f}"
    return f"{low} {high}".strip()
