"""Models of Stable-Baselines3, which may not be installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from handrail.errors import InvalidArgument
from handrail.policies import Policy

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

ENDING = ".zip"
# What a file of Stable-Baselines3 leaves out: the running averages of VecNormalize are another one.
NORMALISED = (
    "if it was trained with VecNormalize, it sees normalised observations, which a .zip does not "
    "say: states and constraints must be in those numbers."
)


def open_model(path: Path) -> tuple[BaseAlgorithm, Policy, float]:
    """A model, the policy on its very parameters, and the tolerance that it can be held to."""
    try:
        from handrail import sb3  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise InvalidArgument(f"{path} is a model of Stable-Baselines3. {error}.") from error
    model = sb3.load(path)
    return model, sb3.policy_of(model), sb3.TOLERANCE
