"""Figures 1 to 3: the matrices of the augmented batch, with real numbers; the environments."""

from __future__ import annotations

import os
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from handrail.batches import Batch, policy_gradient
from handrail.expansion import expand
from handrail.players import Round, make_player
from handrail.reproduction.drawing.measurements import environments_figure, kernel_figure
from handrail.reproduction.exhibit import Content, Exhibit, Finding, Picture
from handrail.reproduction.results import Results
from handrail.returns import predict_step, solve_returns, update
from handrail.rulebook import load
from handrail.runs import make_policy
from handrail.tangent import predict_change, tangent_kernel
from handrail.threads import one_thread

_STEP_SIZE = 1e-4
_STEPS_SHOWN = 40


def _matrices(_: Results) -> Content:
    """The kernel of a batch with the constrained states behind it, as figures 1 and 2 have it."""
    book = load("cartpole")
    env = book.make_environment()
    policy = make_policy(book, env)
    with one_thread():
        episode = make_player(env, 1).play(policy, Round(0, 0, 0))[0]
        states, actions = episode.states[:_STEPS_SHOWN], episode.actions[:_STEPS_SHOWN]
        batch = Batch(states, actions, np.linspace(1.0, -1.0, len(actions)))
        rows = expand(book.constraints, policy).rows()
        everything = np.concatenate([states, rows.states])
        kernel = tangent_kernel(policy, everything, flat=True)
        by_kernel = _change_by_kernel(kernel, policy.probabilities(states), batch)
        directly = predict_change(policy, batch, everything, _STEP_SIZE)
        gap = float(np.abs(by_kernel - directly.ravel()).max() / np.abs(directly).max())
        step = predict_step(policy, policy_gradient(policy, batch), rows, _STEP_SIZE)
        returns = solve_returns(step, "returns", soft=False)
        update(policy, returns)
        reached = rows.values(policy.probabilities(rows.states))
    return Content(
        findings=(
            Finding(
                "The kernel of the augmented batch gives the change of the policy at any state "
                "(theorem 3).",
                f"kernel times returns and our prediction without a kernel differ by {gap:.0e} of "
                "the largest change",
                gap < 1e-8,
            ),
            Finding(
                "Returns at the constrained states can be solved for so that the step satisfies "
                "the constraints, approximately.",
                f"worst violation of the 18 constraints: predicted {returns.worst_violation:+.1e}, "
                f"after the real step {rows.violations(reached).max():+.3f} (before: "
                f"{rows.violations(returns.before).max():+.3f})",
                bool(returns.worst_violation <= 1e-6),
                "The kernel is linear and the softmax is not: the first of these steps falls "
                "short, and the paper's learner takes a few. `enforce` repeats it at once.",
            ),
        ),
        pictures=(
            Picture(
                "matrices",
                kernel_figure(kernel, len(states) * 2),
                f"The tangent kernel of {len(states)} steps of an episode and the 18 constrained "
                "states of Cartpole, two actions each: the blocks of the paper's figures 1 and 2, "
                "with real numbers.",
            ),
        ),
    )


def _change_by_kernel(
    kernel: NDArray[np.float64], probabilities: NDArray[np.float64], batch: Batch
) -> NDArray[np.float64]:
    """Theorem 3: α Θ G/π, where G/π of an action that was not taken is 0; (n·n_A,)."""
    n_actions = probabilities.shape[1]
    taken = np.eye(n_actions)[np.asarray(batch.actions)]
    weights = (np.asarray(batch.returns)[:, None] * taken / probabilities).ravel()
    change: NDArray[np.float64] = _STEP_SIZE * kernel[:, : len(weights)] @ weights
    return change


def _environments(_: Results) -> Content:
    frames = [
        (title, _frame(name, steps))
        for title, name, steps in (
            ("Cartpole", "CartPole-v1", 8),
            ("Lunar Lander", "LunarLander-v3", 35),
        )
    ]
    return Content(
        pictures=(
            Picture(
                "environments",
                environments_figure(frames),
                "The environments, as Gymnasium renders them.",
            ),
        )
    )


def _frame(name: str, steps: int) -> NDArray[np.uint8]:
    """What an environment looks like after some steps of doing the same."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # there may be no screen, and none is needed
    env: gym.Env[Any, Any] = gym.make(name, render_mode="rgb_array")
    try:
        env.reset(seed=0)
        for _ in range(steps):
            env.step(0)
        return np.asarray(env.render(), dtype=np.uint8)
    finally:
        env.close()


MATRICES = Exhibit("matrices", "Figures 1 and 2", "The kernel of the augmented batch", _matrices)
ENVIRONMENTS = Exhibit("environments", "Figure 3", "The environments", _environments)
