"""`handrail export`: the policy of a run, a saved learner or an SB3 model in a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, final

import numpy as np
import typer
from rich.console import Console

from handrail.cli.groups import only_run
from handrail.cli.models import ENDING, open_model
from handrail.cli.options import import_modules
from handrail.constraints import Constraint
from handrail.errors import InvalidArgument
from handrail.export import LOADER, export_numpy, export_onnx
from handrail.policies import Policy
from handrail.reinforce import Reinforce
from handrail.saving import make_environment, unpack_constraints
from handrail.storage import load_state

out = Console()


@final
class Format(StrEnum):
    """What kind of file."""

    onnx = "onnx"
    numpy = "numpy"


_ENDINGS = {Format.onnx: ".onnx", Format.numpy: ".npz"}


@final
@dataclass(frozen=True)
class _Source:
    """What a file or folder holds.

    Attributes:
        policy: to export.
        shape: of one observation.
        stem: of the default name of the exported file, without its ending.
        said: one line about the policy, for people.
        constraints: it obeys.
        observations: their names, where they have some.
        actions: their names, where they have some.
        constraint_file: the text of one, where there is one.
        tolerance: the violation that counts as none.
    """

    policy: Policy
    shape: tuple[int, ...]
    stem: Path
    said: str
    constraints: Sequence[Constraint] = ()
    observations: Sequence[str] = ()
    actions: Sequence[str] = ()
    constraint_file: str = ""
    tolerance: float = 1e-6


def export(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run; or a file that `Reinforce.save` or Stable-Baselines3 (.zip) wrote.",
        ),
    ],
    kind: Annotated[
        Format, typer.Option("--format", help="numpy: for networks of plain layers.")
    ] = Format.onnx,
    target: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="By default RUN/policy.onnx, or beside a saved file."),
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", help="A module to import first: it registers your environments."),
    ] = None,
) -> None:
    """Write a policy to a file that runs without Handrail, the report of its constraints inside."""
    import_modules(modules or [])
    source = _open(path)
    file = source.stem.with_name(source.stem.name + _ENDINGS[kind]) if target is None else target
    if file.exists():
        raise InvalidArgument(
            f"{file} exists already. Delete it first, or choose another name with --out."
        )
    write = {Format.onnx: export_onnx, Format.numpy: export_numpy}[kind]
    exported = write(
        source.policy,
        file,
        source.constraints,
        observations=source.observations,
        actions=source.actions,
        constraint_file=source.constraint_file,
        states=np.zeros((1, *source.shape)),
        tolerance=source.tolerance,
    )
    out.print(source.said, highlight=False, markup=False)
    out.print(str(exported), highlight=False, markup=False, soft_wrap=True)
    if kind is Format.numpy:
        out.print("\nThese ten lines run it:\n", highlight=False)
        out.print(LOADER, highlight=False, markup=False, soft_wrap=True, end="")


def _open(path: Path) -> _Source:
    if path.is_dir():
        return _of_run(path)
    if path.suffix == ENDING:
        return _of_sb3_model(path)
    return _of_saved_learner(path)


def _of_run(folder: Path) -> _Source:
    run = only_run(folder, "A file holds one policy")
    book, agent = run.rulebook, run.agent()
    behind = len(run.records()) - agent.episodes
    note = f", {behind} behind what was recorded: resume it first" if behind > 0 else ""
    return _Source(
        policy=agent.policy,
        shape=(len(book.observations),),
        stem=run.folder / "policy",
        said=f"{book.name}, seed {run.seed}: policy after {agent.episodes} episodes{note}",
        constraints=book.constraints,
        observations=book.observations,
        actions=book.actions,
        constraint_file=book.text,
        tolerance=book.settings.tolerance,
    )


def _of_saved_learner(path: Path) -> _Source:
    tensors, state = load_state(path)
    constraints = unpack_constraints(tensors, state)
    env = make_environment(state["environment"])
    agent = Reinforce.load(path, env, constraints=constraints)
    return _Source(
        policy=agent.policy,
        shape=tuple(env.observation_space.shape or ()),
        stem=path.with_suffix(""),
        said=f"{path}: policy after {agent.episodes} episodes",
        constraints=constraints,
        tolerance=agent.settings.tolerance,
    )


def _of_sb3_model(path: Path) -> _Source:
    model, policy = open_model(path)
    return _Source(
        policy=policy,
        shape=tuple(model.observation_space.shape or ()),
        stem=path.with_suffix(""),
        said=f"{path}: {type(model).__name__} after {model.num_timesteps} steps",
    )
