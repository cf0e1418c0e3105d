"""`handrail prove` and `handrail verify`: certificates of runs."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

import handrail as hr
from handrail._text import visible
from handrail.cli.console import console, say
from handrail.cli.options import Imports, RunFolder, import_modules
from handrail.errors import HandrailError

CERTIFICATE = "certificate.json"


_FIRST_WORD_AFTER = 1.0  # seconds: shorter proofs need no progress


Cells = Annotated[int, typer.Option(min=1, help="Give up after so many cells per bound.")]


Seconds = Annotated[float, typer.Option(min=0.0, help="Give up after so long per bound.")]


Tolerance = Annotated[float, typer.Option(min=0.0, help="Violations up to this are allowed.")]


def prove(
    folder: RunFolder,
    tolerance: Tolerance = 0.0,
    cells: Cells = 200_000,
    seconds: Seconds = 60.0,
    modules: Imports = None,
) -> None:
    """Prove that a run's constraints hold at every state, and write a certificate."""
    import_modules(modules)
    certified = True
    budget = hr.Budget(cells, seconds)
    for run in hr.runs.open_runs(folder):
        policy, constraints = run.agent().policy, run.rulebook.constraints
        found = [_prove(policy, one, tolerance, budget) for one in constraints]
        target = run.folder / CERTIFICATE
        hr.proof.write_certificates(target, policy, constraints, found)
        answers = hr.Certificates(tuple(found))
        say(f"seed {run.seed}: {answers}\nWrote {target}.")
        certified = certified and answers.certified
    if not certified:
        raise typer.Exit(1)


def verify(
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="A JSON file.")],
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run it is about.")],
    tolerance: Tolerance = 0.0,
    cells: Cells = 200_000,
    seconds: Seconds = 60.0,
    modules: Imports = None,
) -> None:
    """Prove a certificate again; another file, other weights or constraints are an error."""
    import_modules(modules)
    run = hr.runs.only_run(folder, "A certificate is about one run")
    policy, constraints = run.agent().policy, run.rulebook.constraints
    budget = hr.Budget(cells, seconds)
    found = hr.proof.verify_certificates(
        certificate,
        policy,
        constraints,
        tolerance,
        lambda constraint: _prove(policy, constraint, tolerance, budget),
    )
    answers = hr.Certificates(tuple(found))
    say(f"seed {run.seed}, proven again: {answers}")
    if not answers.certified:
        raise HandrailError(f"{certificate} is genuine, but does not certify every constraint.")
    within = f" within {tolerance:g}" if tolerance else ""
    say(f"{certificate} holds{within}.", colour="green")


def _prove(
    policy: hr.Policy, constraint: hr.Constraint, tolerance: float, budget: hr.Budget
) -> hr.Certificate:
    """One constraint, with a line about the progress of long proofs."""
    from rich.text import Text

    start = monotonic()
    with console().status("") as status:
        status.stop()

        def watch(proven: int, left: int) -> None:
            if monotonic() - start > _FIRST_WORD_AFTER:
                line = f"{visible(constraint.name)}: {proven:,} cells proven, {left:,} open"
                status.update(Text(line))
                status.start()

        return hr.certify(policy, constraint, tolerance=tolerance, budget=budget, watch=watch)
