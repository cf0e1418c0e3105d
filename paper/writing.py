"""From results to files: figures, metrics of every seed, the page, Markdown. Never trains."""

from __future__ import annotations

import io
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import matplotlib as mpl
from PIL import Image

from handrail._storage import write_atomically
from paper.exhibit import Picture
from paper.markdown import to_markdown
from paper.metrics import write_metrics
from paper.page import to_html
from paper.plan import Plan
from paper.report import Report, Section
from paper.results import Results
from paper.studies import QLearning, Training

PAGE, MARKDOWN, FIGURES, METRICS = "report.html", "README.md", "figures", "metrics"
_DOTS_PER_INCH = 150
_PACKAGES = ("handrail", "torch", "numpy", "scipy", "gymnasium", "stable-baselines3")


def write_results(plan: Plan, command: str) -> Report:
    """Draw and write everything that the plan shows, from results that are all there.

    Args:
        plan: whose jobs are done.
        command: as the page says how it was made.
    """
    results = Results(plan.folder, plan.experiments)
    sections = tuple(Section(one, one.build(results)) for one in plan.exhibits)
    report = Report(
        command=command,
        date=date.today().isoformat(),
        versions=_versions(),
        seconds=results.seconds,
        experiments={one.name: one.title for one in plan.experiments},
        full=plan.full,
        sections=sections,
    )
    pictures = [picture for one in sections for picture in one.content.pictures]
    images = _write_pictures(pictures, plan.folder / FIGURES)
    learning = [e.name for e in plan.experiments if isinstance(e.study, Training | QLearning)]
    write_metrics(map(results.learned, learning), plan.folder / METRICS)
    write_atomically(plan.folder / PAGE, to_html(report, images).encode())
    write_atomically(plan.folder / MARKDOWN, to_markdown(report, FIGURES).encode())
    return report


def _write_pictures(pictures: list[Picture], folder: Path) -> dict[str, bytes]:
    """PNG and SVG of each; the PNG's bytes by name."""
    folder.mkdir(parents=True, exist_ok=True)
    images = {}
    with _reproducible():
        for picture in pictures:
            for ending in ("png", "svg"):
                content = _rendered(picture, ending)
                write_atomically(folder / f"{picture.name}.{ending}", content)
                if ending == "png":
                    images[picture.name] = content
    return images


def _rendered(picture: Picture, ending: str) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Date": None} if ending == "svg" else {"Software": None}
    picture.figure.savefig(buffer, format=ending, dpi=_DOTS_PER_INCH, metadata=metadata)
    return _compressed(buffer) if ending == "png" else buffer.getvalue()


def _compressed(png: io.BytesIO) -> bytes:
    """With the 256 colours that suit it best: less than half the size, no difference to the eye."""
    with Image.open(png) as image:
        few = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    smaller = io.BytesIO()
    few.save(smaller, "PNG", optimize=True)
    return smaller.getvalue()


@contextmanager
def _reproducible() -> Iterator[None]:
    """The same figure gives the same bytes, so redrawing changes nothing that is kept."""
    with mpl.rc_context({"svg.hashsalt": "handrail"}):
        yield


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue  # Stable-Baselines3 is optional
    return versions
