"""How much is measured: all of it, or enough to see that everything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class RegionsPlan:
    """Sizes and numbers of rounds of regions and proofs.

    Attributes:
        seeds: random networks of the plan's width that are made to obey.
        deep_networks: (hidden layers, activation) of others.
        deep_seeds: random networks of each of these.
        samples: that a proof is compared with.
        rounds: turns of proof and sampling.
        dimensions: numbers of varying coordinates of a proof.
        widths: of the network of a proof.
        growth_seeds: random networks for each of these.
        first_updates: of a learner, not counted.
        updates: of a learner that holds regions, counted.
    """

    seeds: int
    deep_networks: tuple[tuple[tuple[int, ...], str], ...]
    deep_seeds: int
    samples: int
    rounds: int
    dimensions: tuple[int, ...]
    widths: tuple[int, ...]
    growth_seeds: int
    first_updates: int
    updates: int


@final
@dataclass(frozen=True)
class Plan:
    """Sizes and numbers of rounds.

    Attributes:
        width: of the hidden layer.
        batch: n_B of the constrained update.
        update_rounds: turns of the constrained and the plain update.
        explicit_sizes: numbers of states at which the explicit procedure is timed.
        explicit_rounds: turns of the explicit procedure.
        kernel_sizes: (n, rounds, columns of the kernel-vector products that are timed).
        batch_sizes: (n_B, rounds) of the growth with the batch.
        constraint_sizes: (n_S, rounds) of the growth with the constraints; a network per round.
        inference_rounds: turns of one observation.
        enforce_seeds: random networks to enforce.
        enforce_rounds: turns for each of them.
        learning_blocks: turns of learning and of bare environment steps.
        learning_episodes: in each of them.
        regions: of regions and proofs.
        startup_rounds: turns of every command that is started.
    """

    width: int
    batch: int
    update_rounds: int
    explicit_sizes: tuple[int, ...]
    explicit_rounds: int
    kernel_sizes: tuple[tuple[int, int, int], ...]
    batch_sizes: tuple[tuple[int, int], ...]
    constraint_sizes: tuple[tuple[int, int], ...]
    inference_rounds: int
    enforce_seeds: int
    enforce_rounds: int
    learning_blocks: int
    learning_episodes: int
    regions: RegionsPlan
    startup_rounds: int


FULL = Plan(
    width=5000,
    batch=200,
    update_rounds=60,
    explicit_sizes=(4, 8, 16, 32, 64),
    explicit_rounds=3,
    kernel_sizes=((18, 25, 36), (150, 9, 60), (1000, 3, 40), (4000, 2, 10)),
    batch_sizes=((200, 15), (600, 15), (2000, 9), (6000, 7), (20000, 5)),
    constraint_sizes=((18, 9), (60, 9), (200, 9), (600, 5), (2000, 5), (5000, 3)),
    inference_rounds=500,
    enforce_seeds=5,
    enforce_rounds=5,
    learning_blocks=10,
    learning_episodes=10,
    regions=RegionsPlan(
        seeds=5,
        deep_networks=(((64, 64), "relu"), ((256, 256), "relu"), ((64, 64), "tanh")),
        deep_seeds=2,
        samples=100_000,
        rounds=5,
        dimensions=(2, 3, 4, 5, 6),
        widths=(250, 500, 1000, 2000, 5000, 10000, 20000),
        growth_seeds=5,
        first_updates=5,
        updates=20,
    ),
    startup_rounds=15,
)

QUICK = Plan(
    width=500,
    batch=50,
    update_rounds=10,
    explicit_sizes=(4, 8, 12),
    explicit_rounds=2,
    kernel_sizes=((18, 3, 36), (60, 3, 30), (200, 2, 10)),
    batch_sizes=((50, 5), (200, 5), (600, 3)),
    constraint_sizes=((18, 3), (60, 3), (200, 2)),
    inference_rounds=50,
    enforce_seeds=2,
    enforce_rounds=2,
    learning_blocks=2,
    learning_episodes=2,
    regions=RegionsPlan(
        seeds=1,
        deep_networks=(((32, 32), "relu"), ((32, 32), "tanh")),
        deep_seeds=1,
        samples=10_000,
        rounds=2,
        dimensions=(2, 3, 4),
        widths=(250, 500, 1000),
        growth_seeds=2,
        first_updates=1,
        updates=3,
    ),
    startup_rounds=3,
)
