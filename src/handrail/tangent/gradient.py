"""Directions in parameter space, the two passes that everything rests on, and steps.

Pull weights on the network's raw outputs back to its parameters; push a change of the parameters
forward to the raw outputs. Both in chunks, so that memory never grows with n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.autograd import forward_ad

from handrail._types import Array
from handrail.errors import InvalidPolicy
from handrail.policies import ROWS_PER_PASS, Layers, Policy
from handrail.tangent.substitution import call_with

Weigh = Callable[[Array, slice], Array]


@final
class Gradient:
    """A direction in parameter space: one tensor per trainable parameter of the policy."""

    def __init__(self, parts: tuple[Tensor, ...]) -> None:
        self.parts = parts

    def __add__(self, other: Gradient) -> Gradient:
        return Gradient(tuple(a + b for a, b in zip(self.parts, other.parts, strict=True)))

    def norm(self) -> float:
        """Euclidean length."""
        lengths = [torch.linalg.vector_norm(part, dtype=torch.float64) for part in self.parts]
        return math.hypot(*map(float, lengths))


def pull_back(policy: Policy, states: ArrayLike, weigh: Weigh) -> Gradient:
    """Gradient of Σ_k w_k · raw(s_k), by one forward and one backward pass.

    Args:
        policy: at its present weights.
        states: (n, *observation_shape).
        weigh: called with the outputs (k, n_actions) at consecutive states and which states they
            are; returns their weights w on the raw outputs (k, n_actions).
    """
    passed = policy.passed(states)
    if passed is not None:
        weights = weigh(policy.head(passed.raw), slice(0, len(passed.raw)))
        return Gradient(passed.pull_back(weights))
    parameters, layers = policy.parameters, policy.layers()
    if layers is not None and layers.trainable:
        return _through_layers(policy, layers, states, weigh)
    total = [torch.zeros_like(p) for p in parameters]
    start = 0
    for inputs in policy.to_tensor(states).split(ROWS_PER_PASS):
        with torch.enable_grad():  # whatever the caller is in the middle of
            raw = policy.module(inputs)
        rows = slice(start, start + len(inputs))
        weights = weigh(policy.head(raw.detach().double().cpu().numpy()), rows)
        parts = torch.autograd.grad(
            raw, parameters, torch.as_tensor(weights).to(raw), allow_unused=True
        )
        for sum_so_far, part in zip(total, parts, strict=True):
            if part is not None:
                sum_so_far.add_(part)
        start = rows.stop
    return Gradient(tuple(total))


def _through_layers(policy: Policy, layers: Layers, states: ArrayLike, weigh: Weigh) -> Gradient:
    """The same of a plain network, without a graph that torch would record and walk."""
    total = [torch.zeros_like(p) for p in layers.parameters]
    start = 0
    for inputs in policy.to_tensor(states).split(ROWS_PER_PASS):
        with torch.no_grad():
            raw = policy.module(inputs)
        rows = slice(start, start + len(inputs))
        weights = weigh(policy.head(raw.double().cpu().numpy()), rows)
        parts = layers.pull_back(inputs, torch.as_tensor(weights).to(raw))
        for sum_so_far, part in zip(total, parts, strict=True):
            sum_so_far.add_(part)
        start = rows.stop
    return Gradient(tuple(total))


def push_forward(policy: Policy, states: ArrayLike, direction: Gradient) -> Array:
    """First-order change of the raw outputs (n, n_actions): one forward-mode pass."""
    fused = policy.fused()
    if fused is not None:
        return fused.push_forward(np.asarray(states, dtype=np.float64), direction.parts)
    names = [name for name, p in policy.module.named_parameters() if p.requires_grad]
    changes = []
    with torch.no_grad(), forward_ad.dual_level():
        duals = {
            name: forward_ad.make_dual(parameter, part.to(parameter))
            for name, parameter, part in zip(names, policy.parameters, direction.parts, strict=True)
        }
        for chunk in policy.to_tensor(states).split(ROWS_PER_PASS):
            try:
                raw = call_with(policy.module, duals, chunk)
            except RuntimeError as error:
                raise InvalidPolicy(
                    f"{type(policy.module).__name__} has a part that torch cannot differentiate in "
                    f"forward mode, which predicting a step needs. Torch's own words: {error}"
                ) from error
            tangent = forward_ad.unpack_dual(raw).tangent
            changes.append(torch.zeros_like(raw) if tangent is None else tangent)
        result: Array = torch.cat(changes).double().cpu().numpy()
    return result


def take_step(policy: Policy, direction: Gradient, length: float) -> None:
    """θ ← θ + length · direction, in place."""
    with torch.no_grad():
        for parameter, part in zip(policy.parameters, direction.parts, strict=True):
            parameter.add_(part, alpha=length)


@contextmanager
def unchanged_on_failure(policy: Policy) -> Iterator[list[Tensor]]:
    """Whatever is raised inside, the policy comes out as it was.

    Gives the snapshot that it goes back to: a failure that raises nothing can `restore` it, too.
    """
    start = snapshot(policy)
    try:
        yield start
    except BaseException:
        restore(policy, start)
        raise


def snapshot(policy: Policy) -> list[Tensor]:
    """A copy of the parameters."""
    return [p.detach().clone() for p in policy.parameters]


def restore(policy: Policy, saved: list[Tensor]) -> None:
    """Back to a snapshot, in place."""
    with torch.no_grad():
        for parameter, value in zip(policy.parameters, saved, strict=True):
            parameter.copy_(value)


def distance(policy: Policy, saved: list[Tensor]) -> float:
    """‖Δθ‖ since a snapshot."""
    pairs = zip(policy.parameters, saved, strict=True)
    return Gradient(tuple(now.detach() - then for now, then in pairs)).norm()
