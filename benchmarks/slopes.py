"""Monotone and Lipschitz on Cartpole: what holding and proving them takes, and how it is held.

`python -m benchmarks.slopes` prints the first table of docs/guides/slopes.md, `--apart` the second,
about the distance of the two states of a chord: the gradient of a row over that distance beside the
exact one (by differentiating twice), and how many problems are held with it. Some minutes each.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import final

import gymnasium as gym
import numpy as np
import torch

import handrail as hr
from handrail._types import Array
from handrail.constraints import slope as slope_module
from handrail.enforcement import Enforcement
from handrail.tangent import pull_back

# x, ẋ, φ, φ̇
BOX = hr.Box([-1.0, -1.0, -0.2, -1.0], [1.0, 1.0, 0.2, 1.0])
PHI = 2
SEEDS = (0, 1, 2)
NETWORKS = (((64,), "tanh"), ((64,), "relu"), ((64, 64), "tanh"), ((256,), "relu"))
DISTANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
CONSTANT = 0.1
MARGIN = hr.Everywhere().margin


@final
@dataclass(frozen=True)
class Problem:
    """A fresh policy, and what its slopes must obey."""

    name: str
    policy: hr.Policy
    rule: hr.Constraint

    def held(self, margin: float = MARGIN) -> tuple[Enforcement, float]:
        """How it went, and the seconds it took."""
        start = perf_counter()
        selection = hr.Everywhere(prove=True, margin=margin)
        result = hr.enforce(self.policy, [self.rule], selection=selection)
        return result, perf_counter() - start


def problems(networks: Sequence[tuple[tuple[int, ...], str]], seed: int) -> Iterator[Problem]:
    """Discrete and continuous, monotone and Lipschitz."""
    env = gym.make("CartPole-v1")
    continuous = (env.observation_space, gym.spaces.Box(-1.0, 1.0, (1,)))
    for hidden, activation in networks:
        name = f"[{', '.join(map(str, hidden))}] {activation}"
        for kind in ("increasing", "within"):
            discrete = hr.CategoricalPolicy.mlp(env, hidden, activation, seed)
            mean = hr.GaussianPolicy.mlp(continuous, hidden, activation, seed)
            for policy, output in ((discrete, 1), (mean, hr.Mean(0))):
                rule: hr.Constraint = hr.Lipschitz(CONSTANT, output, PHI, BOX)
                if kind == "increasing":
                    rule = hr.Monotone(output, PHI, "increasing", BOX)
                yield Problem(f"{name}, {rule.name}", policy, rule)


def effort(margin: float) -> None:
    """The first table of the guide."""
    print("| | held and proven | rounds | cells of the last proof | seconds, all of it |")
    print("|---|---|---|---|---|")
    found: dict[str, list[tuple[Enforcement, float]]] = {}
    for seed in SEEDS:
        for one in problems(NETWORKS, seed):
            found.setdefault(one.name, []).append(one.held(margin))
    for name, several in found.items():
        proven = [(held, seconds) for held, seconds in several if held.proven]
        cells = [held.certificates[0].cells for held, _ in proven]
        rounds = [held.rounds for held, _ in proven]
        taken = [f"{seconds:.1f}" for _, seconds in several]
        print(
            f"| {name} | {len(proven)} of {len(several)} | {_all(rounds)} | "
            f"{_all(f'{one:,}' for one in cells)} | {_all(taken)} |"
        )


def apart() -> None:
    """The second table, behind `_APART`."""
    print("| distance | error of a row's gradient, tanh | ReLU | held and proven, tanh | ReLU |")
    print("|---|---|---|---|---|")
    before = slope_module._APART
    try:
        for distance in DISTANCES:
            slope_module._APART = distance
            errors = [f"{_gradient_error(name):.0e}" for name in ("tanh", "relu")]
            held = [_share_held(name) for name in ("tanh", "relu")]
            print(f"| {distance:.0e} | {' | '.join([*errors, *held])} |", flush=True)
    finally:
        slope_module._APART = before


def _share_held(activation: str) -> str:
    several = [one.held()[0] for seed in SEEDS for one in problems([((64,), activation)], seed)]
    return f"{sum(one.proven for one in several)} of {len(several)}"


def _gradient_error(activation: str) -> float:
    """The median over states: of the row of a chord, relative to the exact one."""
    first = next(problems([((64,), activation)], 0))
    states = BOX.sample(50, np.random.default_rng(0))
    errors = []
    for state in states:
        rows = slope_module.Monotone(1, PHI, "increasing", BOX).rows_at(state[None], 2)
        chord = pull_back(first.policy, rows.states, lambda _, chunk: rows.weights[chunk])  # noqa: B023
        exact = _exact_gradient(first.policy, state)
        got = np.concatenate([part.numpy().ravel() for part in chord.parts])
        errors.append(np.linalg.norm(got - exact) / np.linalg.norm(exact))
    return float(np.median(errors))


def _exact_gradient(policy: hr.Policy, state: Array) -> Array:
    """Of ∂(z_1 - z_0)/∂φ over the weights, by differentiating twice."""
    inputs = torch.tensor(state[None], requires_grad=True)
    logits = policy.module(inputs)
    (slopes,) = torch.autograd.grad((logits[0, 1] - logits[0, 0]), inputs, create_graph=True)
    parts = torch.autograd.grad(slopes[0, PHI], policy.parameters, allow_unused=True)
    whole = [
        torch.zeros_like(one) if part is None else part
        for one, part in zip(policy.parameters, parts, strict=True)
    ]
    result: Array = torch.cat([part.flatten() for part in whole]).numpy()
    return result


def _all(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--margin", type=float, default=MARGIN)
    chosen = parser.parse_args()
    apart() if chosen.apart else effort(chosen.margin)
