"""`python -m benchmarks.proof.effort`: what a proof takes, by dimension and by slack.

Fresh networks, a bound on the probability of one of two actions over the box [-0.5, 0.5]^d, as far
below the lowest value of 20,000 states as the slack says, in log-odds. Cells do not depend on the
machine, seconds do.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import gymnasium as gym
import numpy as np
import torch
from scipy.special import expit

import handrail as hr
from benchmarks.harness import this_machine

_NETWORKS: tuple[tuple[tuple[int, ...], str], ...] = (
    ((64, 64), "tanh"),
    ((256, 256), "relu"),
    ((5000,), "relu"),
)

_DIMENSIONS, _SLACKS = (2, 4, 6, 8), (1.0, 0.3)

# Larger output weights than those of a fresh network, which is too even to be interesting.
_SHARPNESS = 3.0

_STATES = 20_000


@final
@dataclass(frozen=True)
class Effort:
    """Of one proof."""

    network: str
    dimensions: int
    slack: float
    answer: hr.Certificate

    def row(self) -> str:
        """Of the table."""
        left = self.answer.remainder
        known = "all" if left is None else f"{left.proven_share:.0%}"
        least = "–" if left is None else f"{left.violation:.2g}"
        return (
            f"| {self.network} | {self.dimensions} | {self.slack:g} | {self.answer.status} | "
            f"{self.answer.cells:,} | {self.answer.seconds:.2g} | {known} | {least} |"
        )


def efforts(budget: hr.Budget) -> Iterator[Effort]:
    """One by one."""
    for hidden, activation in _NETWORKS:
        for dimensions in _DIMENSIONS:
            policy = _policy(hidden, activation, dimensions)
            region = hr.Box([-0.5] * dimensions, [0.5] * dimensions)
            logits = policy.raw(region.sample(_STATES, np.random.default_rng(0)))
            lowest = float((logits[:, 0] - logits[:, 1]).min())
            for slack in _SLACKS:
                rule = hr.AtLeast(float(expit(lowest - slack)), 0, region)
                answer = hr.certify(policy, rule, budget=budget)
                yield Effort(f"{list(hidden)} {activation}", dimensions, slack, answer)


def _policy(hidden: tuple[int, ...], activation: str, dimensions: int) -> hr.CategoricalPolicy:
    space: Any = gym.spaces.Box(-1.0, 1.0, (dimensions,)), gym.spaces.Discrete(2)
    policy = hr.CategoricalPolicy.mlp(space, list(hidden), activation, seed=0)
    with torch.no_grad():
        policy.parameters[-2].mul_(_SHARPNESS)
    return policy


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="budget of each proof")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/proof-effort.md"))
    options = parser.parse_args()
    machine = this_machine([])
    lines = [
        "# Proof effort by dimension and slack",
        "",
        f"`python -m benchmarks.proof.effort` (part of `make bench`), {options.seconds:g} s for "
        f"each proof, on {machine.cores} cores ({machine.architecture}), {machine.date}. Of fresh "
        "networks with output weights times "
        f"{_SHARPNESS:g}, a bound on the probability of one of two actions over [-0.5, 0.5]^d, "
        "`slack` below the lowest of 20,000 states, in log-odds. `proven` is the share of the "
        "box by volume, `violated by at most` what is proven all the same where it is unknown.",
        "",
        "| network | d | slack | answer | cells | seconds | proven | violated by at most |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in efforts(hr.Budget(seconds=options.seconds)):
        print(one.row(), flush=True)
        lines.append(one.row())
    options.out.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
