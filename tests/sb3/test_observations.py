"""States that a model observes in parts, and features extractors that are nothing but layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor
from torch import Tensor, nn

import handrail as hr
from handrail._types import Array
from handrail.errors import InvalidPolicy
from handrail.policies import Layers, Scaler
from handrail.sb3 import Handrail, policy_of
from handrail.sb3.observations import (
    as_seen,
    layers_of,
    probes,
    shown,
    state_of,
    state_space,
    states_of,
)
from tests.support.sb3_models import Numbers, Two, ppo

PARTS = gym.spaces.Dict(
    {
        "speed": gym.spaces.Box(0.0, 9.0, (1,), np.float32),
        "gear": gym.spaces.Discrete(3),
        "lights": gym.spaces.MultiBinary(2),
        "wheels": gym.spaces.MultiDiscrete([2, 3]),
        "position": gym.spaces.Box(-1.0, 1.0, (2, 2), np.float32),
    }
)
SPACES: dict[str, gym.Space[Any]] = {
    "parts": PARTS,
    "Discrete": gym.spaces.Discrete(4),
    "MultiDiscrete": gym.spaces.MultiDiscrete([2, 3]),
    "MultiBinary": gym.spaces.MultiBinary(3),
}


def _sampled(space: gym.Space[Any], n: int = 5) -> list[Any]:
    space.seed(0)
    return [space.sample() for _ in range(n)]


def _state(space: gym.Space[Any], observation: Any) -> Array:
    flat: Any = gym.spaces.flatten(space, observation)
    return np.asarray(flat, dtype=np.float64)


def _model(space: gym.Space[Any], **network: Any) -> Any:
    policy = "MultiInputPolicy" if isinstance(space, gym.spaces.Dict) else "MlpPolicy"
    settings: dict[str, Any] = {"net_arch": [16], **network}
    env = Numbers(observations=space)
    return A2C(policy, env, n_steps=16, seed=0, device="cpu", policy_kwargs=settings)


def _asked(model: Any, observation: Any) -> Array:
    """Probabilities by Stable-Baselines3 itself, of an observation as the environment has it."""
    tensors, _ = model.policy.obs_to_tensor(observation)
    with torch.no_grad():
        found: Array = model.policy.get_distribution(tensors).distribution.probs[0].numpy()
    return found


class Mixed(BaseFeaturesExtractor):
    """Of parts, more than to put them side by side."""

    def __init__(self, observation_space: gym.spaces.Dict) -> None:
        super().__init__(observation_space, features_dim=2)
        self.position, self.gear = nn.Linear(4, 2), nn.Linear(3, 2)

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        position: Tensor = self.position(observations["position"].flatten(1))
        gear: Tensor = self.gear(observations["gear"])
        return position * gear


@pytest.mark.parametrize("name", SPACES)
def test_states_are_flat_as_gymnasium_flattens(name: str) -> None:
    space = SPACES[name]
    several = _sampled(space)
    expected = np.stack([_state(space, one) for one in several])
    if isinstance(space, gym.spaces.Dict):
        kept: Any = {part: np.stack([one[part] for one in several]) for part in PARTS}
        states = states_of(space, {part: one[:, None] for part, one in kept.items()})
    else:
        kept = np.stack(several)
        states = states_of(space, kept[:, None])
    assert np.allclose(states, expected)
    assert state_space(space).shape == states.shape[1:]
    back: Any = shown(space, torch.as_tensor(states))
    if isinstance(space, gym.spaces.Dict):
        for part in PARTS:
            assert np.array_equal(back[part].numpy(), kept[part])
    else:
        assert np.array_equal(back.numpy(), kept)
    assert np.array_equal(probes(space), probes(space))


@pytest.mark.parametrize("name", SPACES)
def test_a_model_is_held_at_observations_of_any_kind(name: str) -> None:
    """What Stable-Baselines3 says of the observation itself, not of our state, must obey."""
    space = SPACES[name]
    seen = _sampled(space, 2)
    states = np.unique([_state(space, one) for one in seen], axis=0)
    rules = [hr.AtLeast(0.9, action=2, where=hr.Points(states), name="third")]
    model = _model(space)
    rail = Handrail(rules)
    model.learn(32, callback=rail)
    assert rail.worst_violation <= 1e-5
    for one in seen:
        assert _asked(model, one)[2] >= 0.9 - 1e-4
    result = hr.evaluate(model, Numbers(observations=space), rules, episodes=1)
    assert result.satisfied


def test_a_region_over_parts_is_proven() -> None:
    def seen(position: list[list[float]], speed: float) -> dict[str, Any]:
        return {
            "gear": 1,
            "lights": np.array([1, 1], dtype=np.int8),
            "position": np.array(position, dtype=np.float32),
            "speed": np.array([speed], dtype=np.float32),
            "wheels": np.array([0, 2]),
        }

    low, high = seen([[-0.5, -0.5], [0, 0]], 3.0), seen([[0.5, 0.0], [0, 0]], 5.0)
    region = hr.Box(_state(PARTS, low), _state(PARTS, high))
    rules = [hr.AtLeast(0.8, action=0, where=region, name="first")]
    model = _model(PARTS)
    rail = Handrail(rules, prove=True)
    model.learn(16, callback=rail)
    lowest = rail.certificates[0].lowest
    assert lowest is not None
    assert lowest >= 0.8
    for corner in (low, high, seen([[-0.5, 0.0], [0, 0]], 3.0)):
        assert _asked(model, corner)[0] >= 0.8


def test_an_extractor_of_parts_is_prepared() -> None:
    """Its gradients are the actor's own where the critic has one of its own."""
    states = np.stack([_state(PARTS, one) for one in _sampled(PARTS, 2)])
    for share in (True, False):
        model = _model(
            PARTS, features_extractor_class=Mixed, share_features_extractor=share, ortho_init=False
        )
        policy = policy_of(model)
        names = {id(one): name for name, one in model.policy.named_parameters()}
        moved = {names[id(one)] for one in policy.parameters}
        assert any("gear" in name for name in moved) != share
        hr.enforce(policy, [hr.AtLeast(0.6, 1, hr.Points(states), name="a")]).raise_if_unsatisfied()
        for one in _sampled(PARTS, 2):
            assert _asked(model, one)[1] >= 0.6 - 1e-4


class Chained(BaseFeaturesExtractor):
    """Layers one behind the other, some of them written as functions."""

    def __init__(self, observation_space: gym.Space[Any]) -> None:
        super().__init__(observation_space, features_dim=4)
        n = int(np.prod(observation_space.shape or ()))
        self.first = nn.Sequential(nn.Flatten(), nn.Linear(n, 6), nn.ReLU())
        self.second = nn.Linear(6, 4)

    def forward(self, observations: Tensor) -> Tensor:
        return torch.tanh(self.second(self.first(observations)))


class Skipping(Chained):
    """What is used twice is no chain."""

    def forward(self, observations: Tensor) -> Tensor:
        hidden = self.first(observations)
        features: Tensor = self.second(hidden) + hidden[:, :4]
        return features


class Choosing(Chained):
    """What it does depends on what it sees."""

    def forward(self, observations: Tensor) -> Tensor:
        features: Tensor = self.second(self.first(observations))
        return features if features.sum() > 0 else -features


@pytest.mark.parametrize("kind", [Chained, Two])
def test_an_extractor_that_is_a_chain_of_layers_is_looked_into(kind: Any) -> None:
    model = ppo(
        Numbers((2, 2)),
        policy_kwargs={
            "features_extractor_class": kind,
            "share_features_extractor": False,
            "net_arch": [8],
            "ortho_init": False,
        },
    )
    policy = policy_of(model)
    assert isinstance(Layers.of(policy.module), Layers)
    region = hr.Box([-0.5, -0.5, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0])
    rules = [hr.AtLeast(0.7, action=1, where=region, name="second")]
    result = hr.enforce(policy, rules, prove=True).raise_if_unsatisfied()
    lowest = result.certificates[0].lowest
    assert lowest is not None
    assert lowest >= 0.7
    corner = np.array([[0.5, -0.5], [0.0, 0.0]], dtype=np.float32)
    assert _asked(model, corner)[1] >= 0.7


class Scaling(BaseFeaturesExtractor):
    """Numbers of different sizes, brought to one."""

    def __init__(self, observation_space: gym.Space[Any]) -> None:
        super().__init__(observation_space, features_dim=4)
        self.scaler = Scaler([5e-6, 1e-2, 1.0, 1.0], [-1.0, -3.0, 0.0, 0.0])

    def forward(self, observations: Tensor) -> Tensor:
        scaled: Tensor = self.scaler(observations)
        return scaled


class ScalingFirst(Scaling):
    """And a layer that is learned."""

    def __init__(self, observation_space: gym.Space[Any]) -> None:
        super().__init__(observation_space)
        self.learned = nn.Sequential(self.scaler, nn.Linear(4, 4), nn.Tanh())

    def forward(self, observations: Tensor) -> Tensor:
        features: Tensor = self.learned(observations)
        return features


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("kind", [Scaling, ScalingFirst])
def test_a_scaling_in_front_is_held_and_proven_in_the_observations_own_units(
    kind: Any, share: bool
) -> None:
    model = ppo(
        Numbers((4,)),
        policy_kwargs={
            "features_extractor_class": kind,
            "share_features_extractor": share,
            "net_arch": [8],
            "ortho_init": False,
        },
    )
    policy = policy_of(model)
    low, high = [1.6e5, 285.0, 0.1, 0.0], [1.8e5, 300.0, 0.8, 0.0]
    state = np.array([1.7e5, 290.0, 0.5, 0.0], dtype=np.float32)
    rules = [hr.AtLeast(0.7, action=1, where=hr.Box(low, high), name="second")]
    looked_into = kind is Scaling or not share  # what the critic uses as well is not the actor's
    assert isinstance(Layers.of(policy.module), Layers) is looked_into
    seen = policy.seen(state[None])
    if looked_into:
        assert seen == pytest.approx(np.array([[-0.15, -0.1, 0.5, 0.0]]), abs=1e-5)
    result = hr.enforce(policy, rules, prove=looked_into).raise_if_unsatisfied()
    assert result.proven is looked_into
    assert _asked(model, state)[1] >= 0.7


@pytest.mark.parametrize("kind", [Skipping, Choosing])
def test_an_extractor_that_is_more_than_layers_is_not(kind: Any) -> None:
    space = gym.spaces.Box(-1.0, 1.0, (2, 2))
    assert layers_of(kind(space), space) is None
    hooked = Chained(space)
    hooked.register_forward_hook(lambda *_: None)
    assert layers_of(hooked, space) is None
    assert layers_of(Chained(space), space) is not None


def test_parts_that_are_put_side_by_side_are_states() -> None:
    extractor = CombinedExtractor(PARTS)
    assert layers_of(extractor, PARTS) == []
    extractor.extractors["speed"].register_forward_hook(lambda *_: None)
    assert layers_of(extractor, PARTS) is None


def test_discrete_parts_that_do_not_start_at_0_are_refused() -> None:
    with pytest.raises(InvalidPolicy, match="numbers discrete values from 0, but this model obs"):
        state_space(gym.spaces.Dict({"gear": gym.spaces.Discrete(3, start=1)}))


def test_an_image_of_one_channel_among_parts_is_held_as_the_environment_sees_it() -> None:
    """Its channel is last there and first in the model: flat, the same numbers."""
    eye = gym.spaces.Box(0, 255, (36, 36, 1), np.uint8)
    space = gym.spaces.Dict({"eye": eye, "gear": gym.spaces.Discrete(3)})
    seen = _sampled(space, 2)
    states = np.stack([_state(space, one) for one in seen])
    model = _model(space, features_extractor_kwargs={"cnn_output_dim": 4})
    policy = policy_of(model)
    for one, state in zip(seen, states, strict=True):
        np.testing.assert_allclose(policy.outputs(state[None])[0], _asked(model, one), atol=1e-6)
    rules = [hr.AtLeast(0.9, action=2, where=hr.Points(states), name="third")]
    rail = Handrail(rules)
    model.learn(32, callback=rail)
    assert rail.worst_violation <= 1e-5
    assert min(_asked(model, one)[2] for one in seen) >= 0.9 - 1e-4


CHANNELS = {"last": (36, 40, 3), "first": (3, 36, 40)}


@pytest.mark.parametrize("where", CHANNELS)
def test_images_of_several_channels_among_parts_have_them_first(where: str, tmp_path: Path) -> None:
    """As the model is shown them; what an environment observes is turned by `state_of`."""
    eye = gym.spaces.Box(0, 255, CHANNELS[where], np.uint8)
    space = gym.spaces.Dict({"eye": eye, "gear": gym.spaces.Discrete(3)})
    seen = _sampled(space, 2)
    model = _model(space, features_extractor_kwargs={"cnn_output_dim": 4})
    policy = policy_of(model)
    states = np.stack([state_of(model, one) for one in seen])
    first = np.moveaxis(seen[0]["eye"], -1, 0) if where == "last" else seen[0]["eye"]
    assert np.array_equal(states[0, : first.size], first.ravel())
    for one, state in zip(seen, states, strict=True):
        np.testing.assert_allclose(policy.outputs(state[None])[0], _asked(model, one), atol=1e-6)

    flat = [gym.spaces.flatten(space, one) for one in seen]  # as the environment observes them
    np.save(tmp_path / "seen.npy", np.array(flat))
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        f"environment: Seen-v0\nobservations: {{eye: {list(CHANNELS[where])}, gear: [3]}}\n"
        "actions: [a, b, c]\n"
        "constraints: [{name: third, where: {states: seen.npy}, require: c >= 0.9}]\n"
    )
    rail = Handrail(rules)
    model.learn(32, callback=rail)
    assert rail.worst_violation <= 1e-5
    assert min(_asked(model, one)[2] for one in seen) >= 0.9 - 1e-4
    assert hr.measure(policy_of(model), rules).worst_violation <= 1e-5
    played = hr.evaluate(model, Numbers(observations=space), rules, episodes=1)
    assert played.satisfied
    assert np.array_equal(as_seen(model.observation_space, space)(np.array(flat)), states)


def test_a_file_that_gives_other_shapes_of_parts_is_refused(tmp_path: Path) -> None:
    space = gym.spaces.Dict({"eye": gym.spaces.Box(0, 255, (36, 40, 3), np.uint8)})
    np.save(tmp_path / "seen.npy", np.zeros((1, 4321)))
    rules = hr.rulebook.parse(
        "environment: Handrail/Seen-v0\nobservations: {eye: [40, 36, 3], gear: [1]}\n"
        "actions: [a, b, c]\n"
        "constraints: [{name: third, where: {states: seen.npy}, require: c >= 0.9}]\n",
        "seen.yaml",
        tmp_path,
    )
    message = "eye 40 × 36 × 3, gear 1, but the policy observes eye 3 × 36 × 40"
    with pytest.raises(hr.errors.InvalidRulebook, match=message):
        _model(space).learn(8, callback=Handrail(rules))


def test_an_observation_of_another_shape_is_no_state() -> None:
    model = _model(gym.spaces.Dict({"near": gym.spaces.Box(0.0, 1.0, (2,))}))
    with pytest.raises(hr.errors.ShapeMismatch, match=r"this observation has the shape \(3,\)"):
        state_of(model, {"near": np.zeros(3)})


def test_an_image_that_is_the_only_part_is_flat_in_the_model(tmp_path: Path) -> None:
    space = gym.spaces.Dict({"eye": gym.spaces.Box(0, 255, (36, 40, 3), np.uint8)})
    (seen,) = _sampled(space, 1)
    np.save(tmp_path / "seen.npy", seen["eye"][None])
    rules = hr.rulebook.parse(
        "environment: Seen-v0\nobservations: {eye: [36, 40, 3]}\nactions: [a, b, c]\n"
        "constraints: [{name: third, where: {states: seen.npy}, require: c >= 0.9}]\n",
        "seen.yaml",
        tmp_path,
    )
    model = _model(space, features_extractor_kwargs={"cnn_output_dim": 4})
    hr.enforce(policy_of(model), rules, tolerance=1e-5).raise_if_unsatisfied()
    assert _asked(model, seen)[2] >= 0.9 - 1e-4
