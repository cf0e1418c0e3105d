"""The cells that are done, as a page of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from benchmarks.cells.journal import ABOUT_OLD, OLD, Kept
from benchmarks.cells.line import versions_in_words
from benchmarks.harness import markdown_table
from benchmarks.off_policy.cell import OffPolicyCell
from benchmarks.off_policy.setting import Arm, Setting
from benchmarks.off_policy.summary import SHARES, Summary

_NAMES: dict[Arm, str] = {
    "plain": "plain",
    "rail": "with a handrail",
    "allowed": 'with a handrail, explore="allowed"',
}
Row = tuple[str, Arm]  # the name of a setting, and one of its arms


@final
@dataclass(frozen=True)
class Results:
    """What is done so far.

    Attributes:
        trained: of every row, the trainings by seed.
        old: rows with trainings of other code of Handrail than today's.
        versions: of what they ran with, in words.
    """

    trained: Mapping[Row, Mapping[int, Summary]]
    old: frozenset[Row] = frozenset()
    versions: str = ""

    @classmethod
    def read(cls, cells: Sequence[OffPolicyCell], kept: Kept) -> Results:
        """All that is kept of them."""
        trained: dict[Row, dict[int, Summary]] = {}
        for cell in cells:
            line = kept.of(cell)
            if line is not None:
                row = trained.setdefault((cell.setting.name, cell.arm), {})
                row[cell.seed] = Summary.read(line.result)
        old = {(cell.setting.name, cell.arm) for cell in cells if kept.is_old(cell)}
        return cls(trained, frozenset(old), versions_in_words(kept.all_of(cells)))

    def arm(self, setting: Setting, arm: Arm) -> str:
        """For people, with a mark if other code trained it."""
        return _NAMES[arm] + (f" {OLD}" if (setting.name, arm) in self.old else "")

    def of(self, setting: Setting, arm: Arm) -> list[Summary]:
        """Seed by seed."""
        return list(self.trained[setting.name, arm].values())


def page(settings: Sequence[Setting], results: Results) -> str:
    """The whole page, in Markdown."""
    trained = results.trained
    compared = [one for one in settings if all((one.name, arm) in trained for arm in one.arms)]
    done = [(setting, arm) for setting in compared for arm in setting.arms]
    about_old = f"\n\n{ABOUT_OLD}" if results.old else ""
    return f"""# Off-policy models, with and without

This page is generated: `python -m benchmarks.off_policy` trains every cell that is not trained \
yet, one thread each, with {results.versions}. Seeds are 0 to 9, as many as the tables say: \
of one or two, scores say little, and what was done and how long it took, more. Settings were \
chosen on seeds from 100. A seed that one arm lacks was not trained yet, or its fresh network \
could not be made to obey, which the command says. Arms differ in the callback only. The \
constraints are in `benchmarks/off_policy/setting.py`: near the top of Pendulum, push back against \
the fall; on CartPole, prefer to push to where the pole leans and falls; in the air and upright, \
LunarLander's main engine is on where it falls fast and low, and off where it hardly falls (SAC: a \
throttle of at least 0.2, at most -0.2; DQN: `Prefer` main over nothing, nothing over main). \
LunarLander is not trained to the end: ten seeds must fit on two cores, so a plain training is \
given a minute or two, and a score is how far it comes in that. Its learning rate with SAC was \
chosen with a rail, where fewer policies had to be held.{about_old}

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

Seconds of one core, training and everything that the rail does, on machines of which one is twice \
as fast as another: all arms of one algorithm and environment had the same. Policies *looked at* \
are those that acted after an update; *held* are those of them that had to be changed.

{_times(done, results)}
"""


def _scores(rows: Sequence[tuple[Setting, Arm]], results: Results) -> str:
    header = ["", "", "seeds", *(f"after {share:.0%}" for share in SHARES)]
    table = []
    for setting, arm in rows:
        runs = results.of(setting, arm)
        at = [[run.scores[number] for run in runs] for number in range(len(SHARES))]
        title = f"{setting.title}, {setting.steps:,} steps"
        table.append([title, results.arm(setting, arm), str(len(runs)), *map(_spread, at)])
    return markdown_table(header, table, [False, False, True, True, True, True])


def _places(rows: Sequence[tuple[Setting, Arm]], results: Results) -> str:
    header = ["", "", "steps in places", "against", "drawn against", "worst violation"]
    table = []
    for setting, arm in rows:
        runs = results.of(setting, arm)
        steps = sum(run.steps_in_places for run in runs)
        worst = [run.worst_violation for run in runs if run.worst_violation is not None]
        table.append(
            [
                setting.title,
                results.arm(setting, arm),
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
        runs, own = results.of(setting, arm), results.trained[setting.name, arm]
        plain = results.trained[setting.name, "plain"]
        both = sorted(own.keys() & plain.keys())
        ratios = [own[seed].seconds / plain[seed].seconds for seed in both]
        looked = arm != "plain"
        table.append(
            [
                setting.title,
                results.arm(setting, arm),
                f"{np.mean([run.seconds for run in runs]):.0f}",
                f"{np.median(ratios):.2f}" if looked and ratios else "–",
                f"{np.mean([run.looks for run in runs]):,.0f}" if looked else "–",
                f"{np.mean([run.holdings for run in runs]):,.0f}" if looked else "–",
            ]
        )
    return markdown_table(header, table, [False, False, True, True, True, True])


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({part / whole:.1%})" if whole else "–"


def _spread(values: Sequence[float | None]) -> str:
    known = [one for one in values if one is not None]
    if len(known) < 2:
        return f"{known[0]:.1f}" if known else "–"
    return f"{np.mean(known):.1f} ± {np.std(known):.1f}"
