"""Runs as files: their pictures, and a page that compares groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from handrail._storage import write_atomically
from handrail._text import html_text
from handrail.errors import EnvironmentFailure
from handrail.report.change_panels import first_holding_figure
from handrail.report.comparison import Comparison
from handrail.report.comparison_panels import curves_figure, standings_figure
from handrail.report.drawing import save_figure
from handrail.report.episode_panels import draw_episode, first_episode
from handrail.report.learning_curves import (
    cost_figure,
    have_costs,
    have_influence,
    influence_figure,
    loss_figure,
    score_figure,
    violation_figure,
)
from handrail.report.plane import Plane
from handrail.report.policy_panels import policy_figure
from handrail.report.proof_panels import certify_regions, draw_answers
from handrail.report.subject import AnyRuns, Subject, recorded_runs

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse }
td, th { padding: .2rem .8rem; text-align: right }
th { border-bottom: 1px solid #888 }
img { max-width: 100%; width: 32rem; vertical-align: top }
"""


def write_pictures(runs: AnyRuns, folder: str | Path, plane: Plane | None = None) -> list[Path]:
    """Learning curves; of the first run an episode, the policy, its first holding and its proof.

    Args:
        runs: one, several of one constraint file, or those in a folder; some have recorded
            something.
        folder: where the pictures go, as PNG files.
        plane: to show the policy over; by default `Plane.of(rulebook)`. With one observation, or
            images, there is none, and neither a picture of the policy.

    Returns:
        The paths of the pictures.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = recorded_runs(runs)
    figures = {
        "score": score_figure(found),
        "loss": loss_figure(found),
        "violation": violation_figure(found),
    }
    if have_costs([run.records() for run in found]):
        figures["cost"] = cost_figure(found)
    if have_influence([run.records() for run in found]):
        figures["influence"] = influence_figure(found)
    subject = Subject.of(found[0])
    with suppress(EnvironmentFailure):  # the other pictures are wanted all the more
        figures["episode"] = draw_episode(subject, first_episode(subject, found[0].rulebook))
    if len(found[0].rulebook.observations) > 1:
        figures["policy"] = policy_figure(subject, plane=plane)
        first = first_holding_figure(found[0], plane)
        if first is not None:
            figures["first_holding"] = first
        answers = certify_regions(subject.policy, subject.domain.constraints)
        if answers:
            figures["proof"] = draw_answers(subject.domain, answers, plane)
    paths = {name: folder / f"{name}.png" for name in figures}
    for name, figure in figures.items():
        save_figure(figure, paths[name])
    return list(paths.values())


def write_comparison(comparison: Comparison, folder: str | Path) -> Path:
    """A page with the table and pictures of groups side by side; returns its path."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    figures = {"curves": curves_figure(comparison), "standings": standings_figure(comparison)}
    paths = {name: target / f"{name}.png" for name in figures}
    for name, figure in figures.items():
        save_figure(figure, paths[name])
    page = target / "index.html"
    body = f"{comparison._repr_html_()}\n{_images(list(paths.values()))}"
    write_atomically(page, _html("Comparison", body).encode())
    return page


def _images(pictures: Sequence[Path]) -> str:
    images = "".join(f'<img src="{picture.name}" alt="{picture.stem}">' for picture in pictures)
    return f"<h2>Pictures</h2>{images}"


def _html(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{html_text(title)}</title>
<style>{_STYLE}</style>
<h1>{html_text(title)}</h1>
{body}
</html>
"""
