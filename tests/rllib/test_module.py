"""The policy of an RLModule: on the very same weights, or refused in words."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from torch import nn

import handrail as hr
from handrail.rllib.module import policy_of

STATES = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
VECTORS = gym.spaces.Box(-np.inf, np.inf, (4,))
APART = {"vf_share_layers": False}


def module(
    model: dict[str, Any] | None = None,
    actions: gym.Space[Any] | None = None,
    observations: gym.Space[Any] = VECTORS,
    kind: Any = DefaultPPOTorchRLModule,
    inference_only: bool = False,
) -> Any:
    return kind(
        observation_space=observations,
        action_space=actions or gym.spaces.Discrete(3),
        inference_only=inference_only,
        model_config=vars(DefaultModelConfig()) | APART | (model or {}),
    )


def inputs(of: Any) -> torch.Tensor:
    """What RLlib gives to the distribution of actions."""
    found: torch.Tensor = of.forward_exploration({"obs": torch.as_tensor(STATES)})[
        "action_dist_inputs"
    ]
    return found


@pytest.mark.parametrize("inference_only", [False, True])
def test_logits_are_those_of_the_module(inference_only: bool) -> None:
    found = module(inference_only=inference_only)
    policy = policy_of(found)
    assert isinstance(policy, hr.CategoricalPolicy)
    np.testing.assert_allclose(policy.logits(STATES), inputs(found), atol=1e-6)
    own = {id(one) for one in found.parameters()}
    assert {id(one) for one in policy.parameters} <= own
    assert policy.layers() is not None  # so proofs work
    with torch.no_grad():
        found.pi.net.mlp[0].bias += torch.tensor([1.0, 0.0, -1.0])
    np.testing.assert_allclose(policy.logits(STATES), inputs(found), atol=1e-6)


def test_layers_of_a_head_and_normalised_ones() -> None:
    model = {"head_fcnet_hiddens": [16], "head_fcnet_use_layernorm": True, "fcnet_hiddens": [32]}
    found = module(model)
    np.testing.assert_allclose(policy_of(found).raw(STATES), inputs(found), atol=1e-6)


def test_means_of_continuous_actions() -> None:
    found = module({"free_log_std": True}, gym.spaces.Box(-2.0, 2.0, (2,)))
    with torch.no_grad():
        found.pi.log_std[:] = torch.tensor([0.0, -1.0])
    policy = policy_of(found)
    assert isinstance(policy, hr.GaussianPolicy)
    np.testing.assert_allclose(policy.mean(STATES), inputs(found)[:, :2], atol=1e-6)
    np.testing.assert_allclose(policy.std, np.exp([0.0, -1.0]), rtol=1e-6)


class Own(DefaultPPOTorchRLModule):  # type: ignore[misc]
    """Acts otherwise than its layers say."""

    def _forward_exploration(self, batch: Any, **settings: Any) -> Any:
        return {"action_dist_inputs": 0.0 * super()._forward(batch)["action_dist_inputs"]}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": {"vf_share_layers": True}}, r'"vf_share_layers": False'),
        ({"model": {"use_lstm": True, "max_seq_len": 4}}, "remembers"),
        ({"observations": gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)}, "FlattenObservation"),
        ({"actions": gym.spaces.Box(-1.0, 1.0, (2,))}, '"free_log_std": True'),
        ({"actions": gym.spaces.MultiDiscrete([2, 2])}, "Make one Discrete action"),
        ({"kind": Own}, "a `_forward_exploration` of its own instead of that of"),
    ],
)
def test_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(hr.errors.InvalidPolicy, match=words):
        policy_of(module(**settings))


def test_a_container_of_somebody_else() -> None:
    class Net(type(module().pi.net)):  # type: ignore[misc]
        pass

    found = module()
    found.pi.net.__class__ = Net
    with pytest.raises(hr.errors.InvalidPolicy, match=r"pi\.net is a Net, not a TorchMLP"):
        policy_of(found)


def test_a_hook() -> None:
    found = module()
    found.encoder.register_forward_hook(lambda _, __, outputs: outputs)
    with pytest.raises(hr.errors.InvalidPolicy, match="encoder has a forward hook"):
        policy_of(found)


def test_no_module_of_rllib() -> None:
    with pytest.raises(hr.errors.InvalidPolicy, match=r"Expected an RLModule, .* got Linear"):
        policy_of(nn.Linear(4, 2))
