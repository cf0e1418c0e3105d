"""The double target, the soft update, the exploration and the memory, all by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paper.experiment import QSettings
from paper.q_learning.learner import (
    Batch,
    Learner,
    Memory,
    Transition,
    double_targets,
    exploration,
    falling,
    follow,
)

SETTINGS = QSettings(
    hidden=[4],
    step_size=0.01,
    step_size_final=0.01,
    batch=8,
    memory=20,
    learning_starts=10,
    update_every=3,
    discount=0.5,
    lookahead=1,
    target_rate=0.25,
    exploration_fraction=0.1,
    exploration_final=0.01,
)


def floats(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def step(number: int, terminal: bool = False) -> Transition:
    return Transition(
        floats(number, 0.0), number % 2, float(number), floats(number + 1, 0.0), terminal, terminal
    )


def fresh(**settings: Any) -> Learner:
    return Learner(SETTINGS.model_copy(update=settings), width=2, actions=2, timesteps=1000, seed=0)


def test_the_target_is_the_double_one() -> None:
    """By hand, with γ = 1/2.

    1. Online (1, 0) chooses action 0, which the target network values 1: 0 + 1/2. The plain
       target, the greatest of the target network's values, would be 3/2.
    2. Online (-1, 0) chooses action 1, valued 3: 1 + 3/2.
    3. Nothing comes after: the reward alone.
    """
    batch = Batch(
        states=floats([0.0], [0.0], [0.0]),
        actions=np.array([0, 1, 0]),
        returns=floats(0.0, 1.0, 2.0),
        afters=floats([0.0], [0.0], [0.0]),
        discounts=floats(0.5, 0.5, 0.0),
    )
    online = floats([1.0, 0.0], [-1.0, 0.0], [1.0, 0.0])
    found = double_targets(batch, online, target=floats([1.0, 3.0], [1.0, 3.0], [1.0, 3.0]))
    assert found.tolist() == [0.5, 2.5, 2.0]


def test_the_target_network_follows_in_closed_form() -> None:
    """Behind a network that stays, what is left of the distance after n updates is (1 - τ)^n."""
    target, online = floats(0.0, 4.0), floats(1.0, 2.0)
    for _ in range(10):
        follow(target, online, rate=0.1)
    left = (1.0 - 0.1) ** 10
    np.testing.assert_allclose(target, [1.0 - left, 2.0 + 2.0 * left], rtol=1e-6)
    follow(target, online, rate=1.0)
    np.testing.assert_allclose(target, online)


@pytest.mark.parametrize(
    ("progress", "expected"), [(0.0, 1.0), (0.05, 0.505), (0.1, 0.01), (0.3, 0.01), (1.0, 0.01)]
)
def test_exploration_falls_in_a_line_and_stays(progress: float, expected: float) -> None:
    assert exploration(SETTINGS, progress) == pytest.approx(expected)


def test_step_sizes_fall_in_a_line() -> None:
    assert falling(4.0, 1.0, 0.0) == 4.0
    assert falling(4.0, 1.0, 0.5) == 2.5
    assert falling(4.0, 1.0, 2.0) == 1.0
    learner = fresh(learning_starts=0, update_every=1, step_size_final=0.0)
    learner.steps = 999  # of 1000: this is the last one, and of no size
    before = learner.online.parameters.copy()
    assert learner.observe(step(3)) is not None
    np.testing.assert_array_equal(learner.online.parameters, before)


def test_random_actions_become_rare() -> None:
    learner = fresh(exploration_final=0.0)
    state = floats(1.0, 1.0)
    assert {learner.act(state) for _ in range(50)} == {0, 1}
    learner.steps = 100  # a tenth of all
    assert {learner.act(state) for _ in range(50)} == {learner.best(state)}


def test_the_oldest_is_forgotten() -> None:
    memory = Memory(room=3, width=2)
    for number in range(5):
        memory.add(step(number, terminal=number == 4))
    assert len(memory) == 3
    assert memory.rewards.tolist() == [3.0, 4.0, 2.0]
    assert memory.states[:, 0].tolist() == [3.0, 4.0, 2.0]
    assert memory.afters[:, 0].tolist() == [4.0, 5.0, 3.0]
    assert memory.actions.tolist() == [1, 0, 0]
    assert memory.futures.tolist() == [1.0, 0.0, 1.0]
    newest = memory.batch(np.array([0, 1, 2]), discount=0.5, lookahead=1)
    assert newest.returns.tolist() == [4.0, 3.0, 2.0]
    assert newest.discounts.tolist() == [0.0, 0.5, 0.5]
    assert newest.afters[:, 0].tolist() == [5.0, 4.0, 3.0]


def test_returns_of_three_steps_end_with_the_episode() -> None:
    """Rewards 1 to 6 with γ = 1/2; the third step is terminal, after the sixth it is cut off."""
    memory = Memory(room=7, width=1)
    for number in range(1, 8):  # the seventh begins another episode
        state, after = floats(number), floats(number + 0.5)
        terminal, last = number == 3, number in (3, 6)
        memory.add(Transition(state, 0, float(number), after, terminal, last))
    batch = memory.batch(np.array([6, 5, 3, 2]), discount=0.5, lookahead=3)
    assert batch.states[:, 0].tolist() == [1.0, 2.0, 4.0, 5.0]
    # 1 + 2/2 + 3/4; 2 + 3/2; 4 + 5/2 + 6/4; 5 + 6/2.
    assert batch.returns.tolist() == [2.75, 3.5, 8.0, 8.0]
    assert batch.afters[:, 0].tolist() == [3.5, 3.5, 6.5, 6.5]
    assert batch.discounts.tolist() == [0.0, 0.0, 0.125, 0.25]


def test_what_is_not_known_yet_is_not_learned_from() -> None:
    """With one transition that is old enough, that is the one; with none, it waits."""
    learner = fresh(learning_starts=0, update_every=1, lookahead=3)
    assert [learner.observe(step(number)) for number in range(2)] == [None, None]
    drawn: list[Batch] = []
    learner._learn = lambda batch: drawn.append(batch) or 0.0  # type: ignore[method-assign, func-returns-value]
    learner.observe(step(2))
    assert drawn[0].returns.tolist() == [0.0 + 1.0 / 2 + 2.0 / 4] * 8


def test_when_it_learns() -> None:
    learner = fresh()
    losses = [learner.observe(step(number)) for number in range(20)]
    assert [number + 1 for number, loss in enumerate(losses) if loss is not None] == [12, 15, 18]
    assert learner.adam.count == 3


def test_one_update_by_hand() -> None:
    """Adam's first step goes by its whole size, against the sign of the gradient; then τ of it."""
    learner = fresh(learning_starts=0, update_every=1)
    before = learner.online.parameters.copy()
    loss = learner.observe(Transition(floats(1.0, 2.0), 1, 50.0, floats(0.0, 0.0), True, True))
    value = learner.target.copy()
    value.parameters[:] = before
    error = float(value.values(floats(1.0, 2.0))[1]) - 50.0
    assert loss == pytest.approx(abs(error) - 0.5, rel=1e-5)  # Huber's, far from 0
    moved = learner.online.parameters - before
    # The bias of the action taken, behind 2 · 4 + 4 + 4 · 2 others and that of action 0.
    assert moved[-2:].tolist() == pytest.approx([0.0, 0.01], abs=1e-6)
    np.testing.assert_allclose(
        learner.target.parameters, before + 0.25 * moved, rtol=1e-5, atol=1e-7
    )


def test_it_learns_what_pays() -> None:
    """Action 1 pays 1, action 0 nothing, wherever; every step is the last."""
    learner = Learner(
        SETTINGS.model_copy(update={"update_every": 1, "memory": 500}), 2, 2, timesteps=600, seed=1
    )
    rng = np.random.default_rng(3)
    for _ in range(600):
        state = rng.normal(size=2).astype(np.float32)
        action = learner.act(state)
        learner.observe(Transition(state, action, float(action), state, True, True))
    values = learner.online.values(rng.normal(size=(50, 2)).astype(np.float32))
    np.testing.assert_allclose(values, np.tile([0.0, 1.0], (50, 1)), atol=0.15)
