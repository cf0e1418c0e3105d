"""The plants of the examples are those that their constraints speak of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

import handrail as hr
from handrail.rulebook.rulebook import load_rulebook
from tests.conftest import small_policy
from tests.support.scripts import load_script

CRUISE = load_script("examples/adaptive_cruise.py")
TUBE = load_script("examples/lqr_tube.py")


def test_the_car_ahead_stays_within_what_is_declared() -> None:
    env, rng = CRUISE.AdaptiveCruise(), np.random.default_rng(0)
    for seed in range(5):
        state, _ = env.reset(seed=seed)
        assert CRUISE.level(state) >= 5.0
        ended = False
        while not ended:
            action = rng.uniform(-4.0, 3.0, 1)
            after, _, crashed, over, info = env.step(action)
            lead = (after[1] + after[2] - state[1] - state[2]) / 0.1
            own = (after[2] - state[2]) / 0.1
            assert abs(lead) <= 1.5 + 1e-9
            assert 18.0 - 1e-9 <= after[1] + after[2] <= 26.0 + 1e-9
            assert own == pytest.approx(max(min(float(action[0]), 2.5), -state[2] / 0.1))
            moved = state[0] + 0.1 * state[1] + 0.005 * (lead - own)  # as the file has it
            assert after[0] == pytest.approx(moved)
            assert info["h"] == pytest.approx(after[0] - 5.0 - 1.5 * after[2])
            state, ended = after, crashed or over


def test_the_largest_acceleration_that_is_allowed_never_crosses_the_barriers() -> None:
    book = load_rulebook(CRUISE.RULES)
    rng = np.random.default_rng(1)
    states = book.constraints[0].region.sample(2000, rng)  # type: ignore[attr-defined]
    for one in book.constraints[:2]:
        asked = one.asked_at(states, 1)  # type: ignore[attr-defined]
        largest = asked.lower / asked.weights[:, 0]  # a negative weight: an upper bound
        level = book.barriers[one.name]
        # The worst that the declared disturbances can do: the car ahead brakes, noise pushes.
        d, dv, v = states.T
        pushed = largest + 1.25
        after = np.stack(
            [d + 0.1 * dv + 0.005 * (-1.5 - pushed), dv + 0.1 * (-1.5 - pushed), v + 0.1 * pushed],
            axis=1,
        )
        rate = {"keep the distance": 0.05, "keep to the speed": 0.5}[one.name]
        # With the largest acceleration exactly what may be lost is lost.
        assert level.at(after) == pytest.approx((1.0 - rate) * level.at(states), abs=1e-9)


def test_lqr_is_that_of_the_level_track() -> None:
    gain = TUBE.lqr_gain()
    assert gain == pytest.approx(np.array([[-2.84166, -4.04023, -37.5348, -9.61705]]), rel=1e-4)
    small = 1e-6
    columns = [TUBE._motion(small * one, 0.0) / small for one in np.eye(4)]
    drift, push = np.stack(columns, axis=1), TUBE._motion(np.zeros(4), small)[:, None] / small
    closed = expm(0.02 * (drift - push @ gain))
    assert np.abs(np.linalg.eigvals(closed)).max() < 1.0
    # On the slope it rests where its force is the slope's: -K x = SLOPE.
    state = np.zeros(4)
    for _ in range(3000):
        state = TUBE._integrated(state, float(-(gain @ state)[0]) - TUBE.SLOPE)
    assert state == pytest.approx([-TUBE.SLOPE / gain[0, 0], 0.0, 0.0, 0.0], abs=1e-6)


NOT_OURS = "a tracker that Handrail neither needs nor installs"


def offline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trackers keep to themselves, and to this folder."""
    here = {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(folder),
        "WANDB_SILENT": "true",
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    for name, value in here.items():
        monkeypatch.setenv(name, value)


def written(run: Any) -> bytes:
    """What a run of Weights & Biases has on the disk, to be sent some day."""
    (file,) = Path(run.dir).parent.glob("*.wandb")
    return file.read_bytes()


@pytest.mark.filterwarnings("ignore")  # those of the trackers
def test_weights_and_biases_gets_every_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb", reason=NOT_OURS)
    offline(tmp_path, monkeypatch)
    tracking = load_script("examples/tracking.py")
    agent = hr.Reinforce("CartPole-v1", small_policy(4, 2), seed=3)
    records = agent.learn(episodes=3, progress_bar=False, callbacks=[tracking.to_wandb])
    run, _ = tracking.wandb_run(3)
    run.finish()
    wandb.teardown()
    kept = written(run)
    mean = np.mean([record.score for record in records])
    assert kept.count(b"rollout/ep_rew_mean") >= 3
    for value in (mean, records[-1].steps):
        assert str(value).encode() in kept


@pytest.mark.filterwarnings("ignore")
def test_mlflow_gets_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason=NOT_OURS)
    offline(tmp_path, monkeypatch)
    tracking = load_script("examples/tracking.py")
    agent = hr.Reinforce("CartPole-v1", small_policy(4, 2), seed=3)
    records = agent.learn(episodes=3, progress_bar=False, callbacks=[tracking.to_mlflow])
    run, _ = tracking.mlflow_run(3)
    history = mlflow.MlflowClient().get_metric_history(run, "handrail/score")
    found = sorted((one.step, one.value) for one in history)
    assert found == [(record.steps, record.score) for record in records]


@pytest.mark.filterwarnings("ignore")
def test_weights_and_biases_follows_what_stable_baselines3_writes_for_tensorboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb", reason=NOT_OURS)
    sb3 = pytest.importorskip("stable_baselines3")
    offline(tmp_path, monkeypatch)
    run = wandb.init(project="handrail", sync_tensorboard=True)
    model = sb3.PPO(
        *("MlpPolicy", "CartPole-v1"), n_steps=64, seed=0, tensorboard_log=str(tmp_path / "log")
    )
    model.learn(192, callback=hr.sb3.Handrail("cartpole"))
    run.finish()
    wandb.teardown()
    kept = written(run)
    assert kept.count(b"handrail/violation_after") >= 3
    assert b"time/fps" in kept
