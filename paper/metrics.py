"""Every seed's learning as a small table: one line per episode, in a file of its own."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from handrail._storage import write_atomically
from paper.results import Learned, Seed

_COLUMNS = ("scores", "steps", "losses", "safe_losses", "violations")
HEADER = ("episode", "score", "steps", "loss", "safe_loss", "violation")


def write_metrics(learned: Iterable[Learned], folder: Path) -> None:
    """`folder/experiment/seed-0.csv`, …; numbers with five digits, empty where there is nothing."""
    for one in learned:
        target = folder / one.experiment.name
        if target.exists():
            shutil.rmtree(target)  # of more seeds, or of other sizes
        target.mkdir(parents=True)
        for seed in one.seeds:
            write_atomically(target / f"seed-{seed.number}.csv", _table(seed).encode())


def _table(seed: Seed) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    columns = [getattr(seed, name) for name in _COLUMNS]
    for episode, values in enumerate(zip(*columns, strict=True)):
        writer.writerow([episode, *(_cell(value) for value in values)])
    return text.getvalue()


def _cell(value: float) -> str:
    if not np.isfinite(value):
        return ""
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.5g}"
