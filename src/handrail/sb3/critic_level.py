"""The level of what a critic values, while a head start is given.

A policy that begins well earns large returns, much the same at all states, from its first rollout
on. A fresh critic has to climb there from 0, by steps that all point the same way: they drive the
units of its last tanh layer into saturation, from where no gradient leads back, and from then on it
tells no state from another (measured: docs/explanation/influence.md). The level is one number, the
bias of its last layer, and how far off it is a rollout says: so it is put there, and what is left
to learn is how states differ. What advantages are made of is the rollout's own values, before.
"""

from __future__ import annotations

from typing import Any, final

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from torch import Tensor, nn


@final
class CriticLevel:
    """Of a model that learns from rollouts, if its critic ends in a linear layer.

    Args:
        model: the bias of that layer, and no other number, is moved.
    """

    def __init__(self, model: BaseAlgorithm) -> None:
        self._model: Any = model

    def follow(self) -> None:
        """The returns of the rollout that has just ended."""
        bias = _last_bias(self._model.policy)
        if bias is None:
            return
        buffer = self._model.rollout_buffer
        off = float((buffer.returns - buffer.values).mean())
        buffer.values += off  # from which PPO may clip what the critic is to say
        with torch.no_grad():
            bias += off


def _last_bias(network: Any) -> Tensor | None:
    """(1,); None of a critic that ends in anything else than a linear layer that learns."""
    last = getattr(network, "value_net", None)
    if type(last) is not nn.Linear or last.out_features != 1 or last.bias is None:
        return None
    return last.bias if last.bias.requires_grad else None
