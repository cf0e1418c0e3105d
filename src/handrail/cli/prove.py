"""`handrail prove` and `handrail verify`: certificates of runs, and of policies in files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, NamedTuple

import typer

import handrail as hr
from handrail._text import visible
from handrail.cli.console import console, note, say, say_json
from handrail.cli.options import Best, Imports, Json, Statistics, import_modules, open_one
from handrail.errors import HandrailError, InvalidArgument

CERTIFICATE = "certificate.json"

_FIELDS = (  # of a certificate, for programs
    *("name", "status", "lower", "upper", "tolerance", "lowest", "highest", "state"),
    *("violation", "reason", "method", "cells", "seconds", "remainder"),
)

_FIRST_WORD_AFTER = 1.0  # seconds: shorter proofs need no progress

Cells = Annotated[int, typer.Option(min=1, help="Give up after so many cells per bound.")]

Seconds = Annotated[float, typer.Option(min=0.0, help="Give up after so long per bound.")]

Tolerance = Annotated[float, typer.Option(min=0.0, help="Violations up to this are allowed.")]

Proven = Annotated[
    Path,
    typer.Argument(
        metavar="RUN|POLICY",
        help="A run, or a group of runs; or a file that `handrail edit`, `Reinforce.save`, "
        "`handrail export` (.onnx, .npz) or Stable-Baselines3 (.zip) wrote. A .zip contains "
        "pickles: only files you trust.",
    ),
]

Rules = Annotated[
    str | None,
    typer.Option(
        "--constraints", metavar="FILE|NAME", help="What to prove; by default what RUN obeys."
    ),
]


Float32 = Annotated[
    bool,
    typer.Option(
        "--float32", help="Of the policy as it acts in float32: weights and sums rounded."
    ),
]


Inside = Annotated[
    bool,
    typer.Option("--inside", help="Put the certificate into the file itself (.safetensors, .zip)."),
]


class _Subject(NamedTuple):
    """A policy, what it must obey, and where its certificate goes: a file of its own, or its."""

    name: str
    note: str
    policy: hr.Policy
    constraints: Sequence[hr.Constraint]
    certificate: Path


def prove(
    path: Proven,
    constraints: Rules = None,
    tolerance: Tolerance = 0.0,
    cells: Cells = 200_000,
    seconds: Seconds = 60.0,
    float32: Float32 = False,
    inside: Inside = False,
    best: Best = False,
    statistics: Statistics = None,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Prove that constraints hold at every state, and write a certificate."""
    import_modules(modules)
    if inside:
        _refuse_outside(path)
    certified, policies = True, []
    budget = hr.Budget(cells, seconds)
    for one in _subjects(path, constraints, float32, best, statistics):
        if one.note and not json:
            note(one.note)
        found = [_prove(one.policy, each, tolerance, budget) for each in one.constraints]
        target = _write(one, found, path if inside else None)
        answers = hr.Certificates(tuple(found))
        if not json:
            say(f"{one.name}: {answers}\nWrote {target}.")
        policies.append(_fields(one, answers, target))
        certified = certified and answers.certified
    if json:
        say_json({"certified": certified, "policies": policies})
    if not certified:
        raise typer.Exit(1)


def verify(
    certificate: Annotated[
        Path,
        typer.Argument(
            metavar="CERTIFICATE", help="A JSON file; or the file of a policy that one travels in."
        ),
    ],
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN|POLICY",
            help="What it is about, as of `handrail prove`; what travels in a file is about it.",
        ),
    ] = None,
    constraints: Rules = None,
    tolerance: Tolerance = 0.0,
    cells: Cells = 200_000,
    seconds: Seconds = 60.0,
    float32: Float32 = False,
    best: Best = False,
    statistics: Statistics = None,
    json: Json = False,
    modules: Imports = None,
) -> None:
    """Prove a certificate again; another file, other weights or constraints are an error."""
    import_modules(modules)
    content = _travelling(certificate)
    about = _about(certificate, path)
    if about.is_dir() and constraints is None:
        hr.runs.only_run(about, "A certificate is about one run")
    (one,) = _subjects(about, constraints, float32, best, statistics)
    if one.note and not json:
        note(one.note)
    budget = hr.Budget(cells, seconds)
    found = hr.proof.verify_certificates(
        certificate,
        one.policy,
        one.constraints,
        tolerance,
        lambda constraint: _prove(one.policy, constraint, tolerance, budget),
        content,
    )
    answers = hr.Certificates(tuple(found))
    if json:
        say_json({"holds": answers.certified, **_fields(one, answers, certificate)})
    else:
        say(f"{one.name}, proven again: {answers}")
    if not answers.certified:
        raise HandrailError(f"{certificate} is genuine, but does not certify every constraint.")
    if not json:
        within = f" within {tolerance:g}" if tolerance else ""
        say(f"{certificate} holds{within}.", colour="green")


def _refuse_outside(path: Path) -> None:
    """Before any work: what has no inside."""
    if not path.is_file():
        raise InvalidArgument(
            f"--inside is about the file of one policy; that of a run, {path}, is a file "
            "of the run."
        )
    hr.runs.check_carrier(path)


def _write(subject: _Subject, certificates: Sequence[hr.Certificate], inside: Path | None) -> Path:
    """The certificate, into the file of the policy or beside it."""
    about = subject.policy, subject.constraints, certificates
    if inside is None:
        hr.proof.write_certificates(subject.certificate, *about)
        return subject.certificate
    hr.runs.carry_certificate(inside, hr.proof.sealed_certificates(*about))
    return inside


def _fields(subject: _Subject, answers: hr.Certificates, file: Path) -> dict[str, Any]:
    """What programs get to know of it; the cells of the proof are in the certificate."""
    return {
        "policy": subject.name,
        "note": subject.note,
        "certified": answers.certified,
        "certificate": file,
        "constraints": [{name: getattr(one, name) for name in _FIELDS} for one in answers],
    }


def _travelling(certificate: Path) -> bytes | None:
    """The certificate that the file of a policy carries; None of a file of its own."""
    if not hr.runs.carries_certificates(certificate):
        return None
    content = hr.runs.certificate_in(certificate)
    if not content:
        raise InvalidArgument(
            f"{certificate} carries no certificate. Export it with one, handrail export … --prove, "
            f"or prove it: handrail prove {certificate} --inside."
        )
    return content


def _about(certificate: Path, path: Path | None) -> Path:
    if path is not None:
        return path
    if hr.runs.carries_certificates(certificate):
        return certificate
    raise InvalidArgument(f"Name the run or the policy, too, that {certificate} is about.")


def _in(policy: hr.Policy, float32: bool) -> hr.Policy:
    """As it acts there."""
    return policy.in_float32() if float32 else policy


def _subjects(
    path: Path, constraints: str | None, float32: bool, best: bool, statistics: Path | None
) -> list[_Subject]:
    """What there is to prove: of each run, or of one policy in a file."""
    if path.is_dir() and constraints is None and statistics is None:
        return [_of_run(run, float32, best) for run in hr.runs.open_runs(path)]
    book = None if constraints is None else hr.load_rulebook(constraints)
    opened = open_one(path, "Other constraints are proven of one policy", book, best, statistics)
    source = opened if book is None else opened.with_constraints_of(book)
    placed = [isinstance(one, hr.constraints.PlacedConstraint) for one in source.constraints]
    if not placed or not all(placed):  # of constraints at points, a learner saves the rows only
        raise InvalidArgument(
            f"{path} does not say all that is to be proven of its policy. Name a constraint file: "
            "--constraints FILE."
        )
    which = f"{path.name}.best" if best else path.name
    target = path.with_name(f"{which}.{CERTIFICATE}")
    policy = _in(source.policy, float32)
    return [_Subject(str(path), source.note, policy, source.constraints, target)]


def _of_run(run: hr.Run, float32: bool, best: bool) -> _Subject:
    agent = run.best_agent() if best else run.agent()
    name = f"seed {run.seed}"
    if best:
        name = f"{name} ({hr.runs.best_in_words(run, agent)})"
    return _Subject(
        name,
        "",
        _in(agent.policy, float32),
        run.rulebook.constraints,
        run.folder / (f"best.{CERTIFICATE}" if best else CERTIFICATE),
    )


def _prove(
    policy: hr.Policy, constraint: hr.Constraint, tolerance: float, budget: hr.Budget
) -> hr.Certificate:
    """One constraint, with a line about the progress of long proofs."""
    from rich.text import Text

    start = monotonic()
    with console(stderr=True).status("") as status:
        status.stop()

        def watch(proven: int, left: int) -> None:
            if monotonic() - start > _FIRST_WORD_AFTER:
                cells = hr.constraints.counted(proven, "cell")
                line = f"{visible(constraint.name)}: {cells} proven, {left:,} open"
                status.update(Text(line))
                status.start()

        return hr.certify(policy, constraint, tolerance=tolerance, budget=budget, watch=watch)
