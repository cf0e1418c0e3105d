"""A tube around LQR: PPO learns from there, and provably never leaves it.

A pole on a cart, pushed by a continuous force. LQR is designed for the model; the track on which
the cart runs slopes a little, which the model does not know, so LQR rests off the middle. PPO
learns on the real track, with its mean action within ±0.3 N of LQR at every state of a box of all
four observations: held before every rollout, and proven. There it learns to lean against the slope,
which no tuning of LQR's gain can do. Run with `python examples/lqr_tube.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import expm, solve_discrete_are
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import handrail as hr
from handrail._types import Array
from handrail.sb3 import Handrail

GRAVITY, CART, POLE, HALF_LENGTH = 9.8, 1.0, 0.1, 0.5  # of CartPole
SECONDS, STEPS = 0.02, 250
SLOPE = 0.25  # N, down the track
TRACKS, GAMMA = 16, 0.98  # that PPO learns on at once; its discount
STATE_COST, FORCE_COST = np.array([1.0, 0.1, 1.0, 0.1]), 0.1
# x, ẋ, φ, φ̇: where the tube holds; episodes begin in its middle, and stay in it.
BOX = hr.Box(low=[-1.0, -1.0, -0.15, -0.7], high=[1.0, 1.0, 0.15, 0.7])
WIDTH = 0.3


class SlopedCartPole(gym.Env[Array, Any]):
    """CartPole with a continuous force in N, on a track that slopes; a reward is LQR's cost."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-5.0, 5.0, (4,), dtype=np.float64)
        # Stable-Baselines3 acts in float32.
        self.action_space = gym.spaces.Box(-20.0, 20.0, (1,), dtype=np.float32)
        self._state, self._steps = np.zeros(4), 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Near the middle."""
        super().reset(seed=seed, options=options)
        self._state, self._steps = self.np_random.uniform(-0.1, 0.1, 4) * BOX.bounds[1], 0
        return self._state.copy(), {}

    def step(self, action: Array) -> tuple[Array, SupportsFloat, bool, bool, dict[str, Any]]:
        """A fiftieth of a second, in four steps of Runge and Kutta."""
        force = float(np.clip(action[0], -20.0, 20.0))
        cost = float(STATE_COST @ self._state**2 + FORCE_COST * force**2)
        self._state = _integrated(self._state, force - SLOPE)
        self._steps += 1
        left = bool((np.abs(self._state) > 5.0).any())
        return self._state.copy(), -cost, left, self._steps >= STEPS, {}


def _integrated(state: Array, force: float) -> Array:
    k1 = _motion(state, force)
    k2 = _motion(state + 0.5 * SECONDS * k1, force)
    k3 = _motion(state + 0.5 * SECONDS * k2, force)
    k4 = _motion(state + SECONDS * k3, force)
    after: Array = state + SECONDS / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return after


def _motion(state: Array, force: float) -> Array:
    """The derivative of a state (4,): the equations of CartPole."""
    _, x_dot, phi, phi_dot = state
    mass, sine, cosine = CART + POLE, np.sin(phi), np.cos(phi)
    pushed = (force + POLE * HALF_LENGTH * phi_dot**2 * sine) / mass
    turning = (GRAVITY * sine - cosine * pushed) / (
        HALF_LENGTH * (4.0 / 3.0 - POLE * cosine**2 / mass)
    )
    return np.array(
        [x_dot, pushed - POLE * HALF_LENGTH * turning * cosine / mass, phi_dot, turning]
    )


def lqr_gain() -> Array:
    """K (1, 4) of u = -K s, for the level track: discrete, infinite horizon."""
    small = 1e-6
    level = np.zeros(4)
    columns = [(_motion(small * one, 0.0) - _motion(level, 0.0)) / small for one in np.eye(4)]
    drift, push = np.stack(columns, axis=1), _motion(level, small)[:, None] / small
    both = expm(SECONDS * np.block([[drift, push], [np.zeros((1, 5))]]))
    a, b, r = both[:4, :4], both[:4, 4:], np.array([[FORCE_COST]])
    p = solve_discrete_are(a, b, np.diag(STATE_COST), r)
    gain: Array = np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)
    return gain


@dataclass(frozen=True)
class Conduct:
    """Of one controller, over episodes: what one costs, and how far it went from LQR."""

    cost: float
    furthest: float


def conduct(act: Callable[[Array], Array], gain: Array, episodes: int) -> Conduct:
    """Play from the same starts for everybody."""
    env, costs, furthest = SlopedCartPole(), np.zeros(episodes), 0.0
    for number in range(episodes):
        state, _ = env.reset(seed=10_000 + number)
        ended = False
        while not ended:
            action = act(state)
            if BOX.contains(state[None])[0]:
                furthest = max(furthest, float(np.abs(action + gain @ state).max()))
            state, reward, left, over, _ = env.step(action)
            costs[number] -= float(reward)
            ended = left or over
    return Conduct(float(costs.mean()), furthest)


def train(gain: Array, held: bool, seed: int, steps: int) -> tuple[PPO, Handrail | None]:
    """PPO with the tube, or alone."""
    tracks = DummyVecEnv([SlopedCartPole] * TRACKS)
    model = PPO(
        "MlpPolicy",
        VecNormalize(tracks, norm_obs=False, gamma=GAMMA),
        learning_rate=lambda left: 3e-4 * left,
        n_steps=2 * STEPS,
        batch_size=1000,
        gamma=GAMMA,
        policy_kwargs={"net_arch": [64, 64], "log_std_init": -1.0},
        device="cpu",
        seed=seed,
    )
    tube = hr.within(gain, WIDTH, BOX, name="LQR")
    # A tenth of a standard deviation inside: what is proven of a float32 network needs room.
    rail = (
        Handrail(tube, selection=hr.Everywhere(prove=True, margin=0.1, seconds=600))
        if held
        else None
    )
    return model.learn(steps, callback=rail), rail


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=240_000, help="to learn from")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--evaluated", type=int, default=100, help="episodes per cost")
    options = parser.parse_args()

    gain = lqr_gain()
    table = Table(title=f"{options.evaluated} episodes each, without noise", title_justify="left")
    for column in ("", "cost of an episode", "furthest from LQR in the box", "proofs"):
        table.add_column(column, justify="right")
    known = conduct(lambda state: -gain @ state, gain, options.evaluated)
    table.add_row("LQR", f"{known.cost:.2f}", "", "")
    for name, held in (("PPO in the tube", True), ("PPO alone", False)):
        for seed in range(options.seeds):
            model, rail = train(gain, held, seed, options.steps)
            found = conduct(partial(_acted, model), gain, options.evaluated)
            proofs = "" if rail is None else f"{len(rail.history)} of {len(rail.history)}"
            furthest = f"{found.furthest:.3f} N"
            table.add_row(f"{name}, seed {seed}", f"{found.cost:.2f}", furthest, proofs)
    Console().print(table)


def _acted(model: PPO, state: Array) -> Array:
    action: Array = model.predict(state, deterministic=True)[0]
    return action


if __name__ == "__main__":
    main()
