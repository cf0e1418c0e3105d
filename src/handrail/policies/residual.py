"""A network beside a linear controller: u = gain · s + offset + network(s).

What the controller does is not learned: the network learns what to add to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

from handrail._types import Array
from handrail.errors import InvalidPolicy
from handrail.formulas import Affine, Formula, InvalidFormula
from handrail.policies.scaler import Scaler

# As `mlp` takes it: a gain matrix K of u = -K s, or an affine function for each dimension.
Controller = ArrayLike | Affine | Formula | Sequence[Affine | Formula]


@final
class Residual(nn.Module):
    """network(x) + gain · x + offset; gain and offset are not learned.

    Args:
        network: maps observations (n, n_observations) to outputs (n, n_actions).
        gain: (n_actions, n_observations).
        offset: (n_actions,).
        dtype: of the network; torch's default one.
    """

    gain: Tensor
    offset: Tensor

    def __init__(
        self,
        network: nn.Module,
        gain: ArrayLike,
        offset: ArrayLike,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        for name, value in (("gain", gain), ("offset", offset)):
            exact = torch.as_tensor(np.array(value, np.float64))
            self.register_buffer(name, exact.to(dtype or torch.get_default_dtype()))

    def forward(self, observations: Tensor) -> Tensor:
        """The outputs (n, n_actions)."""
        outputs: Tensor = self.network(observations)
        return outputs + self.controlled(observations)

    def controlled(self, observations: Tensor) -> Tensor:
        """What the controller does (n, n_actions)."""
        of = observations.dtype  # gradients are taken in float64, whatever acts
        return functional.linear(observations, self.gain.to(of), self.offset.to(of))

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Gain and offset, on the memory of the tensors."""
        return self.gain.numpy(), self.offset.numpy()

    def extra_repr(self) -> str:
        """For people."""
        return f"controller of {self.gain.shape[1]} numbers"


def controller_arrays(given: Any, n_actions: int, n_observations: int) -> tuple[Array, Array]:
    """Gain (n_actions, n_observations) and offset (n_actions,) of u = gain · s + offset."""
    if isinstance(given, Affine | Formula):
        given = [given]
    if isinstance(given, Sequence) and given and isinstance(given[0], Affine | Formula):
        each = [_affine(one) for one in given]
        gain, offset = [one.gain for one in each], np.array([one.offset for one in each])
    else:
        gain, offset = _negative(given), np.zeros(n_actions)
    shapes = {len(row) for row in gain}
    if len(gain) != n_actions or shapes != {n_observations} or not np.isfinite(gain).all():
        raise InvalidPolicy(
            f"`residual` needs finite numbers for {n_actions} actions and {n_observations} "
            f"observations: a gain matrix K of u = -K s, ({n_actions}, {n_observations}), or a "
            f"handrail.Affine for each action. Got {given!r}."
        )
    return np.array(gain), offset


def _negative(given: Any) -> Any:
    try:
        return -np.atleast_2d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidPolicy(
            f"`residual` is the controller that a network is added to: a gain matrix K of u = "
            f"-K s, or a handrail.Affine for each action. Got {given!r}."
        ) from None


def _affine(one: Affine | Formula) -> Affine:
    if isinstance(one, Affine):
        return one
    try:
        return one.affine()
    except InvalidFormula as error:
        raise InvalidPolicy(
            f"`residual` must be linear in the observations, but {one} is not: {error}."
        ) from None


def in_range(gain: Array, offset: Array, back: Scaler) -> tuple[Array, Array]:
    """The controller in front of a bounding of outputs: what the scaling behind makes of it again.

    Clipped there, it is the controller, clipped; through a tanh it is where it is small.
    """
    factor, middle = (one.double().numpy() for one in (back.factor, back.offset))
    return gain / factor[:, None], (offset - middle) / factor
