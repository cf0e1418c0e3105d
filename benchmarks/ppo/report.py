"""The comparison as a page of tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.machine import this_machine
from benchmarks.ppo.measures import measure
from benchmarks.ppo.studies import FIRST_SEED, PRESSURE, Arm, Study
from benchmarks.ppo.training import Trained
from benchmarks.tables import table
from handrail._types import Array

Runs = Mapping[Study, Mapping[tuple[Arm, int], Trained]]
NAMES: dict[Arm, str] = {
    "plain": "plain",
    "handrail": "with a handrail",
    "pressure": f"with a handrail and pressure {PRESSURE:g}",
}


def page(runs: Runs) -> str:
    """The whole page, in Markdown."""
    return "\n\n".join([_opening(), *(_section(study, runs[study]) for study in runs)]) + "\n"


def runs_of(arm: Arm, runs: Mapping[tuple[Arm, int], Trained]) -> list[Trained]:
    """Of one arm, seed by seed."""
    return [
        run for (own, _), run in sorted(runs.items(), key=lambda item: item[0][1]) if own == arm
    ]


def _opening() -> str:
    versions = this_machine([]).versions
    named = ", ".join(f"{name} {number}" for name, number in versions.items())
    return f"""# Stable-Baselines3 with a handrail and without

This page is generated: `python -m benchmarks.ppo` trained everything on it, with {named}. The two \
sides differ in one thing, `callback=Handrail(file)`; network, settings and seeds are the same, \
and learning rates fall linearly to 0 on both sides. Settings were chosen with seeds below \
{FIRST_SEED}, and these runs have others, from {FIRST_SEED} on. Scores are those of the acting \
policy while it learns, averages over 100 episodes, mean ± standard deviation over seeds. \
[How to use it](../guides/ppo.md).

![Average score over environment steps, with and without a handrail](ppo.png)"""


def _section(study: Study, runs: Mapping[tuple[Arm, int], Trained]) -> str:
    arms = [arm for arm in study.arms if runs_of(arm, runs)]
    header = [
        "",
        "seeds",
        "episodes 0-99",
        "100-199",
        "100-199, seed by seed",
        "last 100",
        f"steps to {study.pass_mark:g}",
    ]
    rows = [_scores_row(study, arm, runs_of(arm, runs)) for arm in arms]
    held = [arm for arm in arms if arm != "plain"]
    holding = [_holding_row(arm, runs_of(arm, runs)) for arm in held]
    columns = [
        "",
        "worst violation of any acting policy",
        "worst that an update left",
        "linearisations a rollout",
        "part of the time",
    ]
    settings = ", ".join(f"{key} {_in_words(value)}" for key, value in study.settings.items())
    return f"""## {study.title}

{study.steps:,} steps, {study.n_envs} environments, constraints of \
[{study.rules}.yaml](../../src/handrail/rulebook/bundled/{study.rules}.yaml), learning rate \
{study.learning_rate:g}{", " + settings if settings else ""}.

{table(header, rows)}

{table(columns, holding)}"""


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_in_words(one)}" for key, one in value.items())
    return value.__name__ if isinstance(value, type) else str(value)


def _scores_row(study: Study, arm: Arm, runs: list[Trained]) -> list[str]:
    found = measure(runs, study.pass_mark)
    passed = found.steps_to_pass[np.isfinite(found.steps_to_pass)]
    median = f"{np.median(passed):,.0f} ({len(passed)} of {len(runs)})" if len(passed) else "none"
    values = [_spread(found.at_100), _spread(found.at_200), _range(found.at_200)]
    return [NAMES[arm], str(len(runs)), *values, _spread(found.at_end), median]


def _holding_row(arm: Arm, runs: list[Trained]) -> list[str]:
    worst = max(run.worst_violation for run in runs if run.worst_violation is not None)
    left = max(run.largest_correction for run in runs if run.largest_correction is not None)
    iterations = sum(run.iterations for run in runs) / sum(run.holdings for run in runs)
    overhead = sum(run.holding_seconds for run in runs) / sum(run.seconds for run in runs)
    return [NAMES[arm], f"{worst:+.1e}", f"{left:+.2f}", f"{iterations:.2f}", f"{overhead:.2%}"]


def _range(values: Array) -> str:
    known = values[np.isfinite(values)]
    return f"{known.min():.1f} to {known.max():.1f}" if len(known) else "-"


def _spread(values: Array) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return "-"
    fewer = f" ({len(known)} seeds)" if len(known) < len(values) else ""
    return f"{known.mean():.1f} ± {known.std():.1f}{fewer}"
