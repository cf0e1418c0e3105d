"""Pictures of runs as files: score, loss, violation, the policy over two observations, a proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, final

from handrail._storage import write_atomically
from handrail.learning import Learner
from handrail.report.drawing import new_figure
from handrail.report.learning_curves import draw_losses, draw_scores, draw_violations
from handrail.report.plane import Slice, default_plane
from handrail.report.policy_panels import policy_figure
from handrail.report.proof_panels import certify_regions, proof_figure
from handrail.report.statistics import SeedSummary, Spread, spread, summarise
from handrail.rulebook import Rulebook
from handrail.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_DOTS_PER_INCH = 130


def write_pictures(
    runs: Sequence[Run], folder: Path, agent: Learner, plane: Slice | None
) -> list[Path]:
    """Score, loss, violation, policy and the proof for its regions, as PNG files.

    Args:
        runs: one per seed; at least one has recorded something.
        folder: where the pictures go.
        agent: whose policy is shown: that of one seed.
        plane: to show it over; None leaves the policy and the proof out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rulebook = runs[0].rulebook
    records = [found for run in runs if (found := run.records())]
    written = []
    draws: dict[str, Callable[[Axes], None]] = {
        "score": lambda axes: draw_scores(axes, records, rulebook.pass_mark),
        "loss": lambda axes: draw_losses(axes, records),
        "violation": lambda axes: draw_violations(axes, records, rulebook.settings.tolerance),
    }
    for name, draw in draws.items():
        figure = new_figure(6.4, 3.8)
        draw(figure.subplots())
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=_DOTS_PER_INCH)
    return written if plane is None else written + _write_planes(rulebook, agent, plane, folder)


def _write_planes(rulebook: Rulebook, agent: Learner, plane: Slice, folder: Path) -> list[Path]:
    """The policy over the plane; and the proof, where there is something to be proven."""
    figures = {"policy": policy_figure(rulebook, agent, plane)}
    answers = certify_regions(agent.policy, rulebook.constraints)
    if answers:
        figures["proof"] = proof_figure(rulebook, answers, plane)
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=_DOTS_PER_INCH)
    return [folder / f"{name}.png" for name in figures]


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse }
td, th { padding: .2rem .8rem; text-align: right }
th { border-bottom: 1px solid #888 }
img { max-width: 100%; width: 32rem; vertical-align: top }
"""


@final
@dataclass(frozen=True)
class GroupSummary:
    """Runs of the same constraint file with different seeds, in numbers."""

    seeds: tuple[SeedSummary, ...]
    first: Spread
    last: Spread

    @property
    def worst_violation(self) -> float | None:
        """Of any policy that acted, over all seeds."""
        found = [one.worst_violation for one in self.seeds if one.worst_violation is not None]
        return max(found) if found else None


def summarise_runs(runs: Sequence[Run]) -> GroupSummary:
    """The runs that have recorded anything, in numbers."""
    seeds = tuple(
        summarise(run.seed, records, run.rulebook.pass_mark)
        for run in runs
        if (records := run.records())
    )
    return GroupSummary(
        seeds=seeds,
        first=spread([one.first for one in seeds]),
        last=spread([one.last for one in seeds]),
    )


def write_report(runs: Sequence[Run], folder: Path) -> Path:
    """A page with the table, the pictures and the constraints; returns its path."""
    rulebook = runs[0].rulebook
    summary = summarise_runs(runs)
    pictures = write_pictures(runs, folder, runs[0].agent(), default_plane(rulebook))
    page = folder / "index.html"
    write_atomically(page, _page(rulebook, summary, pictures).encode())
    return page


def _page(rulebook: Rulebook, summary: GroupSummary, pictures: Sequence[Path]) -> str:
    rows = "".join(
        f"<tr><td>{one.seed}</td><td>{one.episodes}</td><td>{one.first:.1f}</td>"
        f"<td>{one.last:.1f}</td><td>{'–' if one.to_pass is None else one.to_pass}</td>"
        f"<td>{'–' if one.worst_violation is None else f'{one.worst_violation:+.1e}'}</td></tr>"
        for one in summary.seeds
    )
    spreads = "".join(
        f"<li>{what}: {one.mean:.1f} ± {one.deviation:.1f}; interquartile mean {one.iqm:.1f} "
        f"[{one.interval[0]:.1f}, {one.interval[1]:.1f}]</li>"
        for what, one in (("first 100 episodes", summary.first), ("last 100", summary.last))
    )
    images = "".join(f'<img src="{picture.name}" alt="{picture.stem}">' for picture in pictures)
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in rulebook.sentences)
    settings = escape(rulebook.settings.model_dump_json(indent=2))
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{escape(rulebook.name)}</title>
<style>{_STYLE}</style>
<h1>{escape(rulebook.name)}</h1>
<p>{escape(rulebook.description)}</p>
<h2>Constraints</h2><ul>{sentences}</ul>
<h2>Runs</h2>
<table><tr><th>seed</th><th>episodes</th><th>first 100</th><th>last 100</th>
<th>passes from episode</th><th>worst violation</th></tr>{rows}</table>
<ul>{spreads}</ul>
<h2>Pictures</h2>{images}
<details><summary>Settings</summary><pre>{settings}</pre></details>
</html>
"""
