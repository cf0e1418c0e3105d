"""A small experiment of the reproduction, its results made by hand, and ways to stop it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paper.experiment import Experiment, parse
from paper.results import Learned, Seed

NARROW = {"network": {"hidden": [64]}}
TEXT = """
seeds: 2
experiments:
  narrow:
    title: Cartpole, narrow
    label: narrow
    figures: [cartpole]
    study:
      kind: training
      constraints: cartpole
      episodes: 6
      settings: {network: {hidden: [64]}}
"""


def only(text: str) -> Experiment:
    """The one experiment of a file."""
    (experiment,) = parse(text, "small.yaml")
    return experiment


NARROW_EXPERIMENT = only(TEXT)


def nothing(_: Any) -> None: ...


def never() -> bool:
    return False


def after(count: int) -> Callable[[], bool]:
    """A stop that says so at the count-th time of asking."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked >= count

    return stop


def learned(*scores: list[float], pass_mark: float = 195.0, **columns: Any) -> Learned:
    seeds = []
    for number, one in enumerate(scores):
        blank = np.full(len(one), np.nan)
        parts = dict.fromkeys(("losses", "safe_losses", "safe_sizes", "violations"), blank)
        parts |= {name: np.array(rows[number]) for name, rows in columns.items()}
        steps = np.cumsum(np.maximum(np.array(one), 1.0))
        seeds.append(Seed(number, np.array(one), steps, message="", **parts))
    return Learned(NARROW_EXPERIMENT, pass_mark, tuple(seeds))
