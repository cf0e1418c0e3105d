"""The studies as a page of tables, from the cells that are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from benchmarks.cells.journal import ABOUT_OLD, OLD, Kept
from benchmarks.cells.line import versions_in_words
from benchmarks.harness import markdown_table
from benchmarks.influence.statistics import Difference, difference
from benchmarks.influence.study import IN_FULL, INSTEAD, ONE_SIDED, Row, Study
from benchmarks.influence.summary import Summary
from benchmarks.influence.training import Arm

_NAMES: dict[Arm, str] = {
    "plain": "plain",
    "rail": "rail",
    "reach_10": "rail, reach=10",
    "advice": "rail, as advice (reach 10, after fifty rollouts 0.1)",
    "cloning": "cloning before",
    "cloning_and_pull": "cloning before, pull during",
    "penalty": "reward penalty",
    "mask": "action mask (MaskablePPO)",
    "mask_and_edit": "action mask, then `edit`",
    "lagrangian": "PPO-Lagrangian",
}
_NOT_BELOW, _TOO_FEW = "not below", "too few seeds"
_FEWEST = 3  # seeds that an interval can be made of
_LEARNERS = {"reinforce": "`Reinforce`", "ppo": "PPO"}


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
    def read(cls, studies: Sequence[Study], seeds: Sequence[int], kept: Kept) -> Results:
        """All that is kept of them."""
        cells = {row: row.cells(seeds) for study in studies for row in study.rows}
        trained = {
            row: {
                cell.seed: Summary.read(line.result)
                for cell in several
                if (line := kept.of(cell)) is not None
            }
            for row, several in cells.items()
        }
        old = {row for row, several in cells.items() if any(map(kept.is_old, several))}
        lines = [line for several in cells.values() for line in kept.all_of(several)]
        return cls(trained, frozenset(old), versions_in_words(lines))

    def arm(self, row: Row) -> str:
        """For people, with a mark if other code trained it, or what it is compared with."""
        return _NAMES[row.arm] + (f" {OLD}" if {row, row.plain()} & self.old else "")

    def of(self, row: Row) -> list[Summary]:
        """Seed by seed."""
        return [run for _, run in sorted(self.trained.get(row, {}).items())]

    def pairs(self, row: Row) -> list[tuple[Summary, Summary]]:
        """The row's and the plain training of every seed that has both."""
        own, plain = self.trained.get(row, {}), self.trained.get(row.plain(), {})
        return [(own[seed], plain[seed]) for seed in sorted(own.keys() & plain.keys())]


def page(studies: Sequence[Study], results: Results) -> str:
    """The whole page, in Markdown."""
    sections = {
        ONE_SIDED.name: _one_sided_section,
        IN_FULL.name: _full_section,
        INSTEAD.name: _instead_section,
    }
    parts = [f"## {one.title}\n\n{sections[one.name](one, results)}" for one in studies]
    return "\n\n".join([_opening(results), *parts]) + "\n"


def _opening(results: Results) -> str:
    runs = [run for row in results.trained for run in results.of(row)]
    hours = sum(run.seconds for run in runs) / 3600.0
    about_old = f"\n\n{ABOUT_OLD}" if results.old else ""
    return f"""# Influence: what held knowledge costs and gives elsewhere

This page is generated: `python -m benchmarks.influence` trained everything on it ({len(runs):,} \
trainings, {hours:.1f} hours of one core), with {results.versions}. The arms of a \
comparison differ in one thing, how the learner is told; network, settings, budget and seeds are \
the same. Settings were chosen on seeds from 100; what is shown has seeds from 0. Scores are those \
of the acting policy while it learns, mean ± standard deviation over seeds. A violation above 0 \
means broken. Seconds are of one core, on machines of which one is twice as fast as another: they \
can be compared where trainings are of one day.{about_old}"""


# One-sided knowledge


def _one_sided_section(study: Study, results: Results) -> str:
    told = [row for row in study.rows if row.arm != "plain" and results.pairs(row)]
    header = [
        "environment",
        "learner",
        "what is known",
        "arm",
        "seeds",
        "plain",
        "told",
        "difference (95 %)",
        "verdict",
        "influence of the first holding",
        "of a later one",
        "at other visited states: of the first",
        "of a later one",
        "worst violation of any acting policy",
    ]
    right = [False] * 4 + [True] * 10
    table = markdown_table(header, [_one_sided_cells(row, results) for row in told], right)
    return f"""Each set is true, and says nothing of some side of the choice. Scores are those of \
the end: of `Reinforce` the last 100 episodes, of PPO those that end in the last fifth of its \
steps. Differences are taken seed by seed; the interval is a bias-corrected bootstrap over seeds. \
"Not below": noise alone could make it as low. A score says little of how far knowledge reached: \
what moves the policy elsewhere may happen to be right there. So the influence is shown beside it: \
how much a probability changes on average at references where nothing was said, before any \
experience and in a later holding; with PPO also at states that are visited, are not constrained \
and are no references: those of the first rollout, and those of the rollout before a holding. \
A mask that is part of what acts moves nothing elsewhere: what is lost with it, the knowledge \
itself costs. On MountainCar all arms of PPO, plain too, also earn what the car's energy grows by, \
for it never arrives otherwise; scores are the task's.

{_verdicts(told, results)}

{table}"""


def _one_sided_cells(row: Row, results: Results) -> list[str]:
    pairs, setting, found = results.pairs(row), row.setting, _difference(row, results)
    return [
        setting.title,
        _LEARNERS[setting.learner],
        row.knowledge.replace("_", " "),
        results.arm(row),
        str(len(pairs)),
        spread([run.end for _, run in pairs]),
        spread([run.end for run, _ in pairs]),
        f"{found.mean:+.1f} ({found.low:+.1f} … {found.high:+.1f})",
        _verdict(row, results),
        _average([run.first_influence for run, _ in pairs]),
        _average([run.influence for run, _ in pairs]),
        _average([run.first_visited for run, _ in pairs]),
        _average([run.visited for run, _ in pairs]),
        _worst([run for run, _ in pairs]),
    ]


def _verdicts(rows: Sequence[Row], results: Results) -> str:
    lines = []
    for arm in dict.fromkeys(row.arm for row in rows):
        judged = [_verdict(row, results) for row in rows if row.arm == arm]
        found = [one for one in judged if one != _TOO_FEW]
        fine = found.count(_NOT_BELOW)
        if found:
            lines.append(
                f"- {_NAMES[arm]}: not below plain on {fine} of {len(found)} sets and learners"
            )
    return "\n".join(lines)


def _verdict(row: Row, results: Results) -> str:
    """A rail that gave up on any seed is no success, whatever the others scored."""
    if any(run.failure is not None for run, _ in results.pairs(row)):
        return "**gave up**"
    if len(results.pairs(row)) < _FEWEST:
        return _TOO_FEW
    return _NOT_BELOW if _difference(row, results).is_not_below else "**below**"


def _difference(row: Row, results: Results) -> Difference:
    pairs = results.pairs(row)
    return difference([run.end for run, _ in pairs], [run.end for _, run in pairs])


# Knowledge in full


def _full_section(study: Study, results: Results) -> str:
    header = [
        "environment",
        "learner",
        "arm",
        "seeds",
        "first 100 episodes",
        "end",
        "end at the pass mark",
        "steps to the pass mark",
        "worst violation of any acting policy",
        "seconds",
    ]
    rows = [_full_cells(row, results) for row in study.rows if results.of(row)]
    return f"""All constraints of the bundled file. The first 100 episodes show the head start. \
How many *end at the pass mark* (475, 200) is counted on more seeds where few do not. Steps to \
it: until an average of 20 episodes passes it, the median over \
those seeds that do. *Normalised rewards*: all arms learn from rewards divided by how far returns \
vary (`VecNormalize(norm_obs=False)`); scores are the task's.

{markdown_table(header, rows, [False] * 3 + [True] * 7)}"""


def _full_cells(row: Row, results: Results) -> list[str]:
    setting, runs = row.setting, results.of(row)
    passed = [run.steps_to_pass for run in runs if run.steps_to_pass is not None]
    rewards = ", normalised rewards" if setting.normalised else ""
    median = f"{np.median(passed):,.0f} ({len(passed)} of {len(runs)})" if passed else "none"
    there = sum(run.end is not None and run.end >= setting.pass_mark for run in runs)
    return [
        setting.title,
        f"{_LEARNERS[setting.learner]}{rewards}, {setting.budget:,} {setting.unit}",
        results.arm(row),
        str(len(runs)),
        spread([run.first for run in runs]),
        spread([run.end for run in runs]),
        f"{there} of {len(runs)}",
        median,
        _worst(runs),
        _seconds(runs),
    ]


# What a user would pick instead


def _instead_section(study: Study, results: Results) -> str:
    header = [
        "environment",
        "arm",
        "seeds",
        "score at 10 %",
        "at 50 %",
        "at 100 %",
        "steps in constrained places",
        "of these, breaking a bound",
        "worst violation of the final policy, unguarded",
        "its score, unguarded",
        "seconds",
    ]
    rows = [_instead_cells(row, results) for row in study.rows if results.of(row)]
    return f"""PPO with the same knowledge on boxes, so that states which are visited lie inside. \
Scores are of the episodes that end in the tenth of the budget before the mark. A step breaks a \
bound if the distribution that acted there does; a mask is part of what acts, but not of the final \
policy. Whoever is seldom in a constrained place breaks little there: steps are of all seeds. \
*Then `edit`*: what has learned behind the mask is made to obey by itself at the end, with the \
states of its last rollout as references; only there is the final policy another than the one that \
acted last, and scored once more (40 episodes). An edit that gives up leaves the policy as it was.

{markdown_table(header, rows, [False] * 2 + [True] * 9)}"""


def _instead_cells(row: Row, results: Results) -> list[str]:
    setting, runs = row.setting, results.of(row)
    finals = [run.final_violation for run in runs if run.final_violation is not None]
    inside = sum(run.steps_in_places for run in runs)
    broken = sum(run.steps_broken for run in runs)
    return [
        setting.title,
        results.arm(row),
        str(len(runs)),
        *(spread([run.tenths[number] for run in runs]) for number in (0, 4, 9)),
        f"{inside:,}",
        f"{broken / inside:.2%}" if inside else "-",
        f"{max(finals):+.1e}{_gave_up(runs)}" if finals else "-",
        spread([run.final_score for run in runs]),
        _seconds(runs),
    ]


# Cells


def spread(values: Sequence[float | None]) -> str:
    """Mean ± standard deviation of those that are known."""
    known = [value for value in values if value is not None]
    return f"{np.mean(known):.1f} ± {np.std(known):.1f}" if known else "-"


def _worst(runs: Sequence[Summary]) -> str:
    known = [run.worst_violation for run in runs if run.worst_violation is not None]
    return (f"{max(known):+.1e}" if known else "-") + _gave_up(runs)


def _gave_up(runs: Sequence[Summary]) -> str:
    failed = sum(run.failure is not None for run in runs)
    return f" ({failed} gave up)" if failed else ""


def _average(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{np.mean(known):.3f}" if known else "-"


def _seconds(runs: Sequence[Summary]) -> str:
    return f"{np.median([run.seconds for run in runs]):.0f}"
