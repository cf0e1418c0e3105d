"""Continuous actions beyond our own learner: Stable-Baselines3, edits, controllers, files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback

import handrail as hr
from handrail.export.numpy_file import LOADER
from handrail.rulebook.rulebook import parse
from handrail.sb3.callback import Handrail
from handrail.sb3.policy import policy_of
from tests.conftest import small_policy
from tests.policies.test_gaussian import gaussian, states

TORQUE = hr.Mean(0)
UPRIGHT = np.array([[1.0, 0.0, 0.0], [0.96, 0.3, 0.0]])
RULES: list[hr.Constraint] = [
    hr.Between(-0.1, 0.1, TORQUE, hr.Points(UPRIGHT[0]), name="leave it alone"),
    hr.AtMost(-1.5, TORQUE, hr.Points(UPRIGHT[1]), name="push back"),
    hr.AtLeast(0.5, TORQUE, hr.Box([-1.0, -0.1, 1.0], [-0.9, 0.1, 2.0]), name="along"),
]
SMALL: dict[str, Any] = {"n_steps": 64, "seed": 0, "device": "cpu"}


class Means(BaseCallback):
    """The means at the constrained states while the model acts."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[NDArray[Any]] = []

    def _on_step(self) -> bool:
        with torch.no_grad():
            observations = torch.as_tensor(UPRIGHT, dtype=torch.float32)
            mean = self.model.policy.get_distribution(observations).distribution.mean  # type: ignore[operator]
        self.seen.append(mean.numpy()[:, 0])
        return True


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_a_model_with_box_actions_obeys_whenever_it_acts(algorithm: Any) -> None:
    model = algorithm("MlpPolicy", "Pendulum-v1", **SMALL)
    callback, means = Handrail(RULES), Means()
    model.learn(256, callback=[callback, means])
    assert callback.worst_violation <= 1e-5
    assert max(one.violation_before for one in callback.history[1:]) > 1e-3  # updates do break them
    seen = np.stack(means.seen)
    assert np.abs(seen[:, 0]).max() <= 0.1 + 1e-4
    assert seen[:, 1].max() <= -1.5 + 1e-4
    policy = policy_of(model)
    assert isinstance(policy, hr.GaussianPolicy)
    np.testing.assert_allclose(policy.std, model.policy.log_std.detach().exp().numpy())
    assert hr.measure(policy, RULES).worst_violation <= 1e-5
    result = hr.evaluate(model, "Pendulum-v1", RULES, episodes=2)
    assert result.satisfied
    assert result.lengths == (200, 200)


def test_a_file_of_continuous_actions() -> None:
    model = PPO("MlpPolicy", "Pendulum-v1", policy_kwargs={"ortho_init": False}, **SMALL)
    callback = Handrail("pendulum")
    with pytest.raises(
        hr.errors.UnsatisfiedConstraints, match=r'try policy_kwargs={"ortho_init": False}'
    ):
        PPO("MlpPolicy", "Pendulum-v1", **SMALL).learn(64, callback=Handrail("pendulum"))
    model.learn(64, callback=callback)
    assert callback.worst_violation <= 1e-5
    text = hr.load_rulebook("pendulum").text.replace("{torque: [-2, 2]}", "[torque, other]")
    text = text.replace("    std: 0.2\n", "")
    discrete = parse(re.sub(r"torque (<=|>=) -?1.5", r"torque \1 0.5", text), "discrete.yaml")
    with pytest.raises(
        hr.errors.InvalidRulebook, match="is about discrete actions, but the policy acts"
    ):
        model.learn(64, callback=Handrail(discrete))
    other = PPO("MlpPolicy", "MountainCar-v0", **SMALL)
    with pytest.raises(hr.errors.InvalidRulebook, match="is about continuous actions"):
        other.learn(64, callback=Handrail("mountain_car_continuous"))


def test_pressure_pulls_means_towards_their_bounds() -> None:
    left = []
    for pressure in (0.0, 10.0):
        model = PPO("MlpPolicy", "Pendulum-v1", **SMALL)
        callback = Handrail(RULES[:2], pressure=pressure)
        model.learn(320, callback=callback)
        left.append(np.mean([one.violation_before for one in callback.history[1:]]))
    assert left[1] < 0.5 * left[0]


def test_a_policy_is_evaluated_within_the_range() -> None:
    policy = gaussian(3, 1, std=3.0)
    first = hr.evaluate(policy, "Pendulum-v1", RULES, episodes=2, seed=4)
    again = hr.evaluate(policy, gym.make("Pendulum-v1"), RULES, episodes=2, seed=4)
    assert first.scores == again.scores
    assert not first.satisfied
    with pytest.raises(hr.errors.InvalidPolicy, match="Use a CategoricalPolicy"):
        hr.evaluate(gaussian(4, 1), "CartPole-v1")


def test_an_edit_of_means() -> None:
    policy = gaussian(3, 2, hidden=[64])
    some = states(400)
    before = policy.mean(some)
    result = hr.edit(policy, [hr.AtLeast(2.0, TORQUE, hr.Points([0.1, 0.2, 0.3]))], some)
    result.raise_if_refused()
    change = np.abs(policy.mean(some) - before)
    assert policy.mean([0.1, 0.2, 0.3])[0] >= 2.0 - 1e-6
    assert result.side_effects.largest_change == pytest.approx(change.max())
    assert result.side_effects.changed_choices is None
    assert "the largest change of a mean action is" in str(result)
    refused = hr.edit(policy, [hr.AtLeast(9.0, TORQUE, hr.Points([0.1, 0.2, 0.3]))], some, 0.01)
    assert refused.refused
    assert re.search(r"changes mean action [01] by \d.* at most 0.01 is allowed", refused.reason)
    np.testing.assert_allclose(policy.mean([0.1, 0.2, 0.3])[0], 2.0, atol=0.1)


def test_side_effects_of_an_edit_are_counted_on_what_acts() -> None:
    rule = hr.AtLeast(2.0, TORQUE, hr.Points([0.1, 0.2, 0.3]))
    policy, some, limits = gaussian(3, 2, hidden=[64]), states(400), (-0.1, [0.1, 0.2])
    before = policy.mean(some)
    result = hr.edit(policy, [rule], some, limits=limits)
    assert result.enforcement.satisfied
    acting = [np.clip(one, *map(np.asarray, limits)) for one in (before, policy.mean(some))]
    change = np.abs(acting[1] - acting[0])
    assert 0.0 < change.max() < np.abs(policy.mean(some) - before).max()
    assert result.side_effects.largest_change == pytest.approx(change.max())
    assert result.side_effects.mean_change == pytest.approx(change.max(axis=1).mean())
    with pytest.raises(
        hr.errors.ShapeMismatch, match=r"have 2 dimensions, but limits have the shape \(3"
    ):
        hr.edit(policy, [rule], some, limits=(0.0, [1.0, 2.0, 3.0]))
    of_actions = [hr.AtLeast(0.9, 0, hr.Points([0.1, 0.2, 0.3]))]
    with pytest.raises(hr.errors.InvalidArgument, match="limits are those of continuous actions"):
        hr.edit(small_policy(), of_actions, some, limits=(0.0, 1.0))


def test_constraints_from_a_continuous_controller() -> None:
    box = hr.Box([-1.0, -1.0], [1.0, 1.0])
    gain = np.array([[1.0, 0.5], [0.0, 2.0]])
    by_gain = hr.mean_constraints_from(gain, box, 20, 0.1)
    by_rule = hr.mean_constraints_from(lambda s: -gain @ s, box, 20, 0.1)
    assert len(by_gain) == len(by_rule) == 40
    policy = hr.GaussianPolicy.mlp(
        (gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-2, 2, (2,))), [200]
    )
    hr.enforce(policy, by_gain).raise_if_unsatisfied()
    assert hr.measure(policy, by_rule).worst_violation <= 1e-6
    fresh = box.sample(500, np.random.default_rng(0))
    assert np.abs(policy.mean(fresh) + fresh @ gain.T).mean() < 0.3  # between the states as well
    clipped = hr.mean_constraints_from(lambda s: 10.0 * s[0], box, 5, 0.1, limits=(-1.0, 1.0))
    assert all(isinstance(one, hr.Between) and abs(one.lower + 0.1) <= 1.0 for one in clipped)
    copied = hr.mean_constraints_from(policy, box, 10, 0.01, name="teacher")
    assert hr.measure(policy, copied).satisfied
    assert copied[0].name == "teacher at state 0: mean action 0"


def test_what_is_no_continuous_controller_is_refused() -> None:
    box = hr.Box([-1.0, -1.0], [1.0, 1.0])
    with pytest.raises(hr.errors.InvalidArgument, match="margin must be a positive number"):
        hr.mean_constraints_from([[1.0, 1.0]], box, 5, 0.0)
    with pytest.raises(
        hr.errors.ShapeMismatch, match=r"shape \(1, 3\).*expected \(2,\) or \(n_act"
    ):
        hr.mean_constraints_from([[1.0, 1.0, 1.0]], box, 5, 0.1)
    with pytest.raises(
        hr.errors.InvalidArgument, match="a function from a state to an action, a gain"
    ):
        hr.mean_constraints_from("lqr", box, 5, 0.1)
    with pytest.raises(
        hr.errors.InvalidArgument, match=r"returned nan at .*expected a finite number"
    ):
        hr.mean_constraints_from(lambda _: float("nan"), box, 5, 0.1)
    with pytest.raises(hr.errors.InvalidArgument, match="The controller raised ZeroDivisionError"):
        hr.mean_constraints_from(lambda _: 1 / 0, box, 5, 0.1)
    with pytest.raises(hr.errors.InvalidArgument, match="count must be a positive whole number"):
        hr.mean_constraints_from([[1.0, 1.0]], box, 0, 0.1)
    with pytest.raises(hr.errors.InvalidArgument, match=r"gain matrix \[nan, 1.0\] must be finite"):
        hr.mean_constraints_from([np.nan, 1.0], box, 5, 0.1)
    with pytest.raises(
        hr.errors.InvalidArgument, match=r"Categorical.*: constraints_from keeps to thos"
    ):
        hr.mean_constraints_from(small_policy(2, 2), box, 5, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [[], [[1.0, 2.0]], "left", [1.0, [2.0]], None])
def test_an_answer_that_is_no_action(answer: Any) -> None:
    with pytest.raises(
        hr.errors.InvalidArgument, match=r"returned .* at \[.*; expected a finite number"
    ):
        hr.mean_constraints_from(lambda _: answer, hr.Box([-1.0, -1.0], [1.0, 1.0]), 5, 0.1)


def test_answers_of_different_lengths_are_refused() -> None:
    def ragged(state: NDArray[Any]) -> list[float]:
        return [0.0] if state[0] < 0.0 else [0.0, 1.0]

    words = r"returned [12] numbers at \[.*\], but [12] at \[.*\]: expected one for each dim"
    with pytest.raises(hr.errors.InvalidArgument, match=words):
        hr.mean_constraints_from(ragged, hr.Box([-1.0, -1.0], [1.0, 1.0]), 8, 0.1)


@pytest.mark.parametrize(
    ("limits", "error", "words"),
    [
        (2.0, hr.errors.InvalidArgument, r"such as \(-2.0, 2.0\), not 2.0"),
        (
            ("a", "b"),
            hr.errors.InvalidArgument,
            r"the lowest and the highest action, .* not \('a', 'b'\)",
        ),
        ((-1.0, 0.0, 1.0), hr.errors.InvalidArgument, "the lowest and the highest action"),
        ((2.0, -2.0), hr.errors.InvalidArgument, r"low up to high, .* not \(2.0, -2.0\)"),
        ((np.nan, 2.0), hr.errors.InvalidArgument, "low up to high"),
        (
            ([-1.0, -1.0], [1.0, 1.0]),
            hr.errors.ShapeMismatch,
            r"have 1 dim.* shape \(2,\): expected two",
        ),
    ],
)
def test_limits_that_cannot_be_meant(limits: Any, error: type[Exception], words: str) -> None:
    box = hr.Box([-1.0, -1.0], [1.0, 1.0])
    with pytest.raises(error, match=words):
        hr.mean_constraints_from([1.0, 1.0], box, 5, 0.1, limits=limits)


def test_limits_may_differ_between_dimensions() -> None:
    box = hr.Box([-1.0, -1.0], [1.0, 1.0])
    limits = np.array([-1.0, -0.5]), np.array([1.0, 0.5])
    for one in hr.mean_constraints_from(lambda _: [9.0, -9.0], box, 3, 0.1, limits=limits):
        assert isinstance(one, hr.Between)
        assert one.upper == pytest.approx(1.1 if one.action == hr.Mean(0) else -0.4)


def test_exported_means(tmp_path: Path) -> None:
    policy = gaussian(3, 2, hidden=[30], activation="tanh")
    rules = [hr.AtLeast(0.5, TORQUE, hr.Points([0.1, 0.2, 0.3]), name="up")]
    hr.enforce(policy, rules).raise_if_unsatisfied()
    some = states(50)
    hr.export_numpy(policy, tmp_path / "policy.npz", rules)
    namespace: dict[str, Any] = {}
    exec(LOADER, namespace)
    file = dict(np.load(tmp_path / "policy.npz"))
    np.testing.assert_allclose(namespace["outputs"](file, some), policy.mean(some), atol=1e-12)
    metadata = json.loads(str(file["metadata"]))
    assert metadata["quantity"] == "mean"
    assert metadata["std"] == policy.std.tolist()
    assert len(metadata["std"]) == 2
    assert metadata["report"]["satisfied"]
    exported = hr.export_onnx(policy, tmp_path / "policy.onnx", rules)
    assert exported.largest_difference <= 1e-12
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    assert json.loads(session.get_modelmeta().custom_metadata_map["std"]) == metadata["std"]
    shared = hr.GaussianPolicy(policy.module, 0.5)
    hr.export_numpy(shared, tmp_path / "shared.npz")
    about = json.loads(str(np.load(tmp_path / "shared.npz")["metadata"]))
    assert about["std"] == [0.5, 0.5]
    (mean,) = session.run(["mean"], {"observations": some})
    np.testing.assert_allclose(mean, policy.mean(some), atol=1e-12)


def test_a_single_constraint_and_a_wrong_ending_are_refused(tmp_path: Path) -> None:
    with pytest.raises(hr.errors.InvalidConstraint, match=r"the single Between 'leave it alone'"):
        Handrail(RULES[0])  # type: ignore[arg-type]
    with pytest.raises(hr.errors.InvalidArgument, match=r"expected a name that ends with \.onnx"):
        hr.export_onnx(gaussian(), tmp_path / "policy.npz")
    with pytest.raises(hr.errors.InvalidArgument, match=r"expected a name that ends with \.npz"):
        hr.export_numpy(gaussian(), tmp_path / "policy.onnx")
