"""How much is measured: all of it, or enough to see that everything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


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
)
