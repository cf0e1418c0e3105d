"""The cells that are done, as a page of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.harness import markdown_table, versions_of
from benchmarks.off_policy.setting import Arm, Setting
from benchmarks.off_policy.training import Training

# Of each setting and arm, the trainings by seed.
Results = Mapping[tuple[str, Arm], Mapping[int, Training]]

_PACKAGES = ("handrail", "stable-baselines3", "torch", "numpy", "gymnasium")
_NAMES: dict[Arm, str] = {
    "plain": "plain",
    "rail": "with a handrail",
    "allowed": 'with a handrail, explore="allowed"',
}
_SHARES = (0.25, 0.5, 1.0)
_BEFORE = 0.2  # of the budget: a score is the mean of the episodes that ended in it


def page(settings: Sequence[Setting], results: Results) -> str:
    """The whole page, in Markdown."""
    compared = [one for one in settings if all((one.name, arm) in results for arm in one.arms)]
    done = [(setting, arm) for setting in compared for arm in setting.arms]
    return f"""# Off-policy models, with and without

This page is generated: `python -m benchmarks.off_policy` trains every cell that is not trained \
yet, one thread each, with {_versions()}. Seeds are 0 to 9, as many as the tables say: \
of one or two, scores say little, and what was done and how long it took, more. Settings were \
chosen on seeds from 100. Arms differ in the callback only. The constraints are in \
`benchmarks/off_policy/setting.py`: near the top of Pendulum, push back against the fall; on \
CartPole, prefer to push to where the pole leans and falls.

## Scores

The mean score of the training episodes, noise and random steps included, that ended in the fifth \
of the budget before; mean ± standard deviation over seeds.

{_scores(done, results)}

## What was done where the constraints speak

Steps at states of a constrained region. *Against*: the action without noise or chance (of SAC \
the deterministic one, of DQN the greedy one) is not what the constraint asks. *Drawn against*: \
the action that was done is not. The worst violation is that of any policy that acted, as \
`rail.worst_violation` says it; above 0 would be broken.

{_places(done, results)}

## Time

Seconds of one core, training and everything that the rail does. Policies *looked at* are those \
that acted after an update; *held* are those of them that had to be changed.

{_times(done, results)}
"""


def _versions() -> str:
    return ", ".join(f"{name} {version}" for name, version in versions_of(_PACKAGES).items())


def score_at(run: Training, steps: float) -> float:
    """Of the episodes that ended before so many steps; NaN if none did."""
    ends, scores = np.array(run.ends), np.array(run.scores)
    before = _BEFORE * run.ends[-1] if len(ends) else 0.0
    chosen = scores[(ends <= steps) & (ends > steps - before)]
    return float(chosen.mean()) if len(chosen) else float("nan")


def _scores(rows: Sequence[tuple[Setting, Arm]], results: Results) -> str:
    header = ["", "", "seeds", *(f"after {share:.0%}" for share in _SHARES)]
    table = []
    for setting, arm in rows:
        runs = list(results[setting.name, arm].values())
        at = [[score_at(run, share * setting.steps) for run in runs] for share in _SHARES]
        title = f"{setting.title}, {setting.steps:,} steps"
        table.append([title, _NAMES[arm], str(len(runs)), *map(_spread, at)])
    return markdown_table(header, table, [False, False, True, True, True, True])


def _places(rows: Sequence[tuple[Setting, Arm]], results: Results) -> str:
    header = ["", "", "steps in places", "against", "drawn against", "worst violation"]
    table = []
    for setting, arm in rows:
        runs = list(results[setting.name, arm].values())
        steps = sum(run.steps_in_places for run in runs)
        worst = [run.worst_violation for run in runs if run.worst_violation is not None]
        table.append(
            [
                setting.title,
                _NAMES[arm],
                f"{steps:,}",
                _share(sum(run.against for run in runs), steps),
                _share(sum(run.drawn_against for run in runs), steps),
                f"{max(worst):+.1e}" if worst else "–",
            ]
        )
    return markdown_table(header, table, [False, False, True, True, True, True])


def _times(rows: Sequence[tuple[Setting, Arm]], results: Results) -> str:
    header = ["", "", "seconds", "relative to plain", "looked at", "held"]
    table = []
    for setting, arm in rows:
        own, plain = results[setting.name, arm], results.get((setting.name, "plain"), {})
        runs = list(own.values())
        both = sorted(own.keys() & plain.keys())
        ratios = [own[seed].seconds / plain[seed].seconds for seed in both]
        looked = arm != "plain"
        table.append(
            [
                setting.title,
                _NAMES[arm],
                f"{np.mean([run.seconds for run in runs]):.0f}",
                f"{np.median(ratios):.2f}" if looked and ratios else "–",
                f"{np.mean([run.looks for run in runs]):,.0f}" if looked else "–",
                f"{np.mean([run.holdings for run in runs]):,.0f}" if looked else "–",
            ]
        )
    return markdown_table(header, table, [False, False, True, True, True, True])


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({part / whole:.1%})" if whole else "–"


def _spread(values: Sequence[float]) -> str:
    known = [one for one in values if np.isfinite(one)]
    if len(known) < 2:
        return f"{known[0]:.1f}" if known else "–"
    return f"{np.mean(known):.1f} ± {np.std(known):.1f}"
