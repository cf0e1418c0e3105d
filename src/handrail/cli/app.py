"""Every command: parse, call, print."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handrail._package import VERSION
from handrail.cli.edit import edit_policy
from handrail.cli.evaluate import evaluate_policies
from handrail.cli.export import export
from handrail.cli.options import (
    Deterministic,
    Imports,
    import_modules,
    on_region,
    plane_of,
    settings_of,
    states_outside,
)
from handrail.cli.play import film, refuse_unrenderable, watch
from handrail.cli.prove import prove, verify
from handrail.cli.tables import environments_table, summary_table
from handrail.cli.train import learn_all
from handrail.constraints import expand
from handrail.enforcement import contradiction, diagnose, enforce
from handrail.errors import HandrailError, InvalidArgument
from handrail.report import summarise_runs, write_pictures, write_report
from handrail.rulebook import Actions, json_schema, load_rulebook, with_settings
from handrail.runs import (
    Run,
    free_folder,
    make_agent,
    make_policy,
    open_runs,
    refuse_mixing,
    refuse_taken,
    seed_folder,
)

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Reinforcement learning that obeys: constraints on the policy, held from the first step.",
)


out = Console()


RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run, or a group of runs.")]


RuleFile = Annotated[
    str, typer.Argument(metavar="FILE|NAME", help="A constraint file, or a bundled one's name.")
]


Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; by default one per core.")]


CheckpointSeconds = Annotated[float, typer.Option(min=0.0, help="Between checkpoints.")]


def main() -> None:
    """Run the command line; errors that we foresee are printed as one message."""
    try:
        app()
    except HandrailError as error:
        text = f"[bold red]error:[/] {escape(str(error))}"
        Console(stderr=True).print(text, highlight=False, soft_wrap=True)  # no path is cut in two
        sys.exit(2)


@app.command()
def train(
    file: RuleFile,
    episodes: Annotated[int | None, typer.Option(help="How many to learn from.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the first run.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many runs, seed by seed.")] = 1,
    enforcement: Annotated[str | None, typer.Option(help="exact, one_step or none.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="none, standardised, time_average or value.")
    ] = None,
    step_size: Annotated[float | None, typer.Option(help="Of one update.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting, as name=value.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Of the runs; by default runs/NAME.")
    ] = None,
    jobs: Jobs = None,
    checkpoint_seconds: CheckpointSeconds = 5.0,
    modules: Imports = None,
) -> None:
    """Learn from a constraint file, one run per seed, and write a report."""
    import_modules(modules or [])
    settings = settings_of(
        change or [],
        episodes=episodes,
        seed=seed,
        enforcement=enforcement,
        baseline=baseline,
        step_size=step_size,
    )
    book = with_settings(load_rulebook(file), **settings)
    make_agent(book)  # what cannot be, or cannot be obeyed, is refused before anything is written
    group = free_folder(book.name) if folder is None else folder
    refuse_mixing(group, book)
    first = book.settings.seed
    folders = {number: seed_folder(group, number) for number in range(first, first + seeds)}
    for one in folders.values():
        refuse_taken(one)  # all of them before the first is begun
    runs = [Run.create(one, with_settings(book, seed=number)) for number, one in folders.items()]
    number = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    out.print(f"{book.description or book.name}: {number} in {group}", highlight=False)
    _learn(runs, group, jobs, modules or [], checkpoint_seconds)


@app.command()
def resume(
    folder: RunFolder,
    episodes: Annotated[int | None, typer.Option(help="A new goal, to learn on to.")] = None,
    jobs: Jobs = None,
    checkpoint_seconds: CheckpointSeconds = 5.0,
    modules: Imports = None,
) -> None:
    """Continue runs that were interrupted, bit for bit as if they had not been."""
    import_modules(modules or [])
    runs = open_runs(folder)
    if episodes is not None:
        runs = [run.with_episodes(episodes) for run in runs]
    unfinished = [run for run in runs if len(run.records()) < run.rulebook.settings.episodes]
    if not unfinished:
        out.print("Nothing is left to learn. To go on: --episodes with a larger number.")
    _learn(unfinished, folder, jobs, modules or [], checkpoint_seconds)


def _learn(
    runs: list[Run], group: Path, jobs: int | None, modules: list[str], checkpoint_seconds: float
) -> None:
    outcome = learn_all(runs, jobs or os.cpu_count() or 1, modules, checkpoint_seconds)
    recorded = [run for run in open_runs(group) if run.records()]
    if recorded:
        out.print(summary_table(summarise_runs(recorded), recorded[0].rulebook.pass_mark))
        out.print(f"Report: {write_report(recorded, group / 'report')}", highlight=False)
    if outcome.failures:
        raise HandrailError("\n".join(outcome.failures))
    if outcome.stopped:
        out.print(f"Stopped. Continue with: handrail resume {group}", highlight=False)
        raise typer.Exit(130)


@app.command()
def check(
    file: RuleFile,
    seed: Annotated[int | None, typer.Option(help="Of the network that is asked to obey.")] = None,
    modules: Imports = None,
) -> None:
    """Say in words what a constraint file asks for, and try it on a fresh network."""
    import_modules(modules or [])
    book = with_settings(load_rulebook(file), **settings_of([], seed=seed))
    env = book.make_environment()
    out.print(f"[bold]{book.name}[/]: {book.description}", highlight=False)
    out.print(f"environment: {book.environment.id}", highlight=False)
    out.print(f"observations: {', '.join(book.observations)}", highlight=False)
    out.print(f"actions: {Actions(book.actions, book.ranges)}", highlight=False)
    for sentence in book.sentences:
        out.print(f"  • {sentence}", highlight=False, markup=False)
    for constraint in book.constraints:
        outside = states_outside(env, constraint.states)
        if outside:
            out.print(
                f"[yellow]note:[/] {outside} of {len(constraint.states)} states "
                f"{'that stand for' if on_region(constraint) else 'of'} {constraint.name!r} lie "
                "outside the observation space.",
                highlight=False,
            )
    policy = make_policy(book, env)
    impossible = contradiction(expand(book.constraints, policy))
    if impossible:
        raise HandrailError(impossible)
    diagnosis = diagnose(policy, book.constraints)
    regions = ", regions by 100 states each" if any(map(on_region, book.constraints)) else ""
    out.print(
        f"On a fresh network (seed {book.settings.seed}{regions}): {diagnosis}", highlight=False
    )
    if not diagnosis.feasible:
        raise HandrailError("These constraints contradict each other. Relax one of each conflict.")
    settings = book.settings
    enforcement = enforce(
        policy, book.constraints, settings.tolerance, selection=settings.selection
    )
    if not enforcement.satisfied:
        raise HandrailError(enforcement.reason)
    out.print(
        f"[green]All constraints can hold together:[/] the network obeyed after "
        f"{enforcement.iterations} iterations, worst violation "
        f"{enforcement.worst_violation:+.1e}"
        + (", proven on every state of the regions." if enforcement.certificates else "."),
        highlight=False,
    )


app.command("evaluate")(evaluate_policies)


@app.command()
def show(
    folder: RunFolder,
    over: Annotated[
        str | None, typer.Option(help="Two observations of the policy's plane: phi,phi_dot.")
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="Values of the other observations: x=0.")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option("--out", help="Where pictures go; by default RUN/pictures.")
    ] = None,
    modules: Imports = None,
) -> None:
    """Draw score, loss, violation, the policy and the proof, and print the table."""
    import_modules(modules or [])
    runs = [run for run in open_runs(folder) if run.records()]
    if not runs:
        raise InvalidArgument(f"{folder} has recorded no episode yet: there is nothing to show.")
    plane = plane_of(runs[0].rulebook, over, at or [])
    agent = runs[0].agent()
    out.print(summary_table(summarise_runs(runs), runs[0].rulebook.pass_mark))
    target = folder / "pictures" if pictures is None else pictures
    for path in write_pictures(runs, target, agent, plane):
        out.print(str(path), highlight=False)


app.command()(prove)


app.command()(verify)


app.command("edit")(edit_policy)


app.command()(export)


@app.command()
def play(
    folder: RunFolder,
    episodes: Annotated[int, typer.Option(min=1, help="How many.")] = 1,
    deterministic: Deterministic = False,
    window: Annotated[
        bool, typer.Option("--window", help="Show it instead of filming it.")
    ] = False,
    path: Annotated[
        Path | None, typer.Option("--out", help="The film; by default RUN/pictures/play.gif.")
    ] = None,
    modules: Imports = None,
) -> None:
    """Film the policy at work, as an animated GIF, or watch it in a window."""
    import_modules(modules or [])
    run = open_runs(folder)[0]
    policy = run.agent().policy
    target = folder / "pictures" / "play.gif" if path is None else path
    mode = "human" if window else "rgb_array"
    refuse_unrenderable(run.rulebook.make_environment(), mode)
    if window:
        env = run.rulebook.make_environment(render_mode="human")
        episodes_played = watch(env, policy, run.seed, episodes, deterministic)
    else:
        env = run.rulebook.make_environment(render_mode="rgb_array")
        episodes_played = film(env, policy, run.seed, episodes, deterministic, target)
    env.close()
    scores = ", ".join(f"{episode.score:g}" for episode in episodes_played)
    out.print(f"seed {run.seed}, scores {scores}" + ("" if window else f": {target}"))


@app.command()
def environments() -> None:
    """List the bundled constraint files."""
    out.print(environments_table())


@app.command()
def schema() -> None:
    """Print the JSON Schema of constraint files, for editors."""
    typer.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(VERSION)
