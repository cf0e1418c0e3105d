"""Handrail for RLlib: `HeldPPOConfig().environment(…).constraints(…).build_algo()`."""

try:
    import ray.rllib.algorithms.ppo as _needed
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'handrail.rllib needs RLlib: pip install "handrail[rllib]", in an environment of its own '
        "(RLlib pins its version of Gymnasium)",
        name=error.name,
    ) from error

from handrail.learning import Holding
from handrail.rllib.config import HeldPPO, HeldPPOConfig
from handrail.rllib.env_runner import HeldEnvRunner
from handrail.rllib.learner import HeldPPOLearner
from handrail.rllib.module import policy_of

del _needed

__all__ = [
    "HeldEnvRunner",
    "HeldPPO",
    "HeldPPOConfig",
    "HeldPPOLearner",
    "Holding",
    "policy_of",
]
