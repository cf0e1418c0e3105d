"""Policies that obey on the paper's six regions: what a proof costs, next to sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final
from unittest.mock import patch

import gymnasium as gym
import numpy as np

import handrail as hr
from benchmarks.harness import Task, Timings, clocked, take_turns
from benchmarks.plan import Plan
from benchmarks.problem import wide_policy
from benchmarks.proof.hold import taped_holds
from handrail._types import Array
from handrail.constraints import Expansion, expand, violations_at
from handrail.policies.fused_network import FusedNetwork
from handrail.rulebook import load_rulebook

# What a proof may cost, in units of evaluating the samples.
CHEAPER_THAN_SAMPLING = 1.0


@final
@dataclass(frozen=True)
class Obedience:
    """How a random network was made to obey, and what that was worth.

    Attributes:
        seconds: of `enforce` without a proof, once.
        rounds: of exchange.
        iterations: linearisations.
        working_states: that hold the regions, all together.
        proven: how many of the regions could be proven afterwards.
        counterexample: the largest violation that a proof came upon, if one did.
        worst_sample: the largest violation of the samples; negative means that all obey.
        again_seconds: of `enforce` with prove=True from there, where not all could be.
    """

    seconds: float
    rounds: int
    iterations: int
    working_states: int
    proven: int
    counterexample: float | None
    worst_sample: float
    again_seconds: float | None


@final
@dataclass(frozen=True)
class ProofTiming:
    """A proof of all regions next to evaluating the samples; seconds are medians.

    Attributes:
        compiled: whether the samples were evaluated by numba; proofs never are.
        proven: how many regions.
        method: of the proof.
        cells: that were bounded.
        proof_seconds: of all regions.
        sampling_seconds: of `policy.probabilities` at all samples.
        ratio: proof over sampling.
        quartiles: of the ratios within a round.
    """

    compiled: bool
    proven: int
    method: str
    cells: int
    proof_seconds: float
    sampling_seconds: float
    ratio: float
    quartiles: tuple[float, float]


@final
@dataclass(frozen=True)
class RegionProof:
    """One network: made to obey, then proven and sampled in turns.

    Attributes:
        hidden: widths of its layers.
        activation: between them.
        seed: of its weights.
        regions: how many there are.
        obedience: how it was made to obey.
        timings: with samples by numba where it applies, and by torch.
    """

    hidden: tuple[int, ...]
    activation: str
    seed: int
    regions: int
    obedience: Obedience
    timings: list[ProofTiming]

    @property
    def is_of_paper(self) -> bool:
        """Whether it is the paper's kind of network, which the target speaks of."""
        return len(self.hidden) == 1 and self.activation == "relu"


def measure_proofs(plan: Plan) -> list[RegionProof]:
    """The paper's network, then deeper ones."""
    regions, rules = plan.regions, load_rulebook("cartpole_regions").constraints
    hr.enforce(wide_policy(plan.width, seed=regions.seeds), rules)  # warm-up
    cases: list[tuple[tuple[int, ...], str, int]] = [
        ((plan.width,), "relu", seed) for seed in range(regions.seeds)
    ]
    for hidden, activation in regions.deep_networks:
        cases += [(hidden, activation, seed) for seed in range(regions.deep_seeds)]
    return [_measure(plan, rules, *case) for case in cases]


def _measure(
    plan: Plan,
    rules: Sequence[hr.Constraint],
    hidden: tuple[int, ...],
    activation: str,
    seed: int,
) -> RegionProof:
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden, activation, seed)
    expansion = expand(rules, policy)
    everywhere = hr.Union([one.region for one in expansion.regional])
    samples = everywhere.sample(plan.regions.samples, np.random.default_rng(seed))
    obedience = _obey(policy, rules, expansion, samples)
    return RegionProof(
        hidden=hidden,
        activation=activation,
        seed=seed,
        regions=len(rules),
        obedience=obedience,
        timings=_in_turns(policy, rules, samples, plan.regions.rounds),
    )


def _obey(
    policy: hr.CategoricalPolicy,
    rules: Sequence[hr.Constraint],
    expansion: Expansion,
    samples: Array,
) -> Obedience:
    """As the search's own samples see it; with a proof as well, where these were not enough."""
    with taped_holds() as tape:
        _, seconds = clocked(lambda: hr.enforce(policy, rules).raise_if_unsatisfied())
    certificates = [hr.certify(policy, rule) for rule in rules]
    violations = [one.violation for one in certificates if one.violation is not None]
    worst_sample = _worst(policy, expansion, samples)
    again_seconds = None
    if not all(one.certified for one in certificates):
        # Where even that fails, the policy is as it was and the timings say what is not proven.
        _, again_seconds = clocked(lambda: hr.enforce(policy, rules, prove=True))
    return Obedience(
        seconds=seconds,
        rounds=tape[0].rounds,
        iterations=tape[0].iterations,
        working_states=tape[0].working_states,
        proven=sum(one.certified for one in certificates),
        counterexample=max(violations, default=None),
        worst_sample=worst_sample,
        again_seconds=again_seconds,
    )


def _worst(policy: hr.CategoricalPolicy, expansion: Expansion, samples: Array) -> float:
    """The largest violation of the samples, each in the regions that it lies in."""
    return max(
        float(violations_at(policy, one, samples[one.region.contains(samples)]).max())
        for one in expansion.regional
    )


def _in_turns(
    policy: hr.CategoricalPolicy, rules: Sequence[hr.Constraint], samples: Array, rounds: int
) -> list[ProofTiming]:
    """Proof, sampling, proof, sampling, …: samples by numba, too, where the network allows."""
    kinds = {False: _uncompiled(policy)}
    if policy.fused() is not None:
        kinds = {True: policy, **kinds}
    proofs: dict[bool, Callable[[], list[hr.Certificate]]] = {}
    tasks: dict[str, Task] = {}
    for compiled, one in kinds.items():
        proofs[compiled] = partial(_certify, one, rules)
        tasks[f"proof {compiled}"] = proofs[compiled]
        tasks[f"sampling {compiled}"] = partial(one.probabilities, samples)
    timings = take_turns(tasks, rounds, warm_up=1)
    return [_timing(timings, compiled, proof()) for compiled, proof in proofs.items()]


def _timing(timings: Timings, compiled: bool, certificates: list[hr.Certificate]) -> ProofTiming:
    proof, sampling = f"proof {compiled}", f"sampling {compiled}"
    return ProofTiming(
        compiled=compiled,
        proven=sum(one.certified for one in certificates),
        method=certificates[0].method,
        cells=sum(one.cells for one in certificates),
        proof_seconds=timings.median(proof),
        sampling_seconds=timings.median(sampling),
        ratio=timings.ratio(proof, sampling),
        quartiles=timings.spread(proof, sampling),
    )


def _certify(policy: hr.CategoricalPolicy, rules: Sequence[hr.Constraint]) -> list[hr.Certificate]:
    return [hr.certify(policy, rule) for rule in rules]


def _uncompiled(policy: hr.CategoricalPolicy) -> hr.CategoricalPolicy:
    """The same weights, evaluated by torch."""
    with patch.object(FusedNetwork, "of", return_value=None):
        return hr.CategoricalPolicy(policy.module)
