"""Handrail for Stable-Baselines3: `PPO("MlpPolicy", env).learn(…, callback=Handrail(…))`."""

try:
    import stable_baselines3 as _needed
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'handrail.sb3 needs Stable-Baselines3: pip install "handrail[sb3]"', name=error.name
    ) from error

from handrail.learning import Holding
from handrail.sb3 import agent as _plays
from handrail.sb3 import off_policy as _reads_actors
from handrail.sb3 import q_network as _reads_values
from handrail.sb3.callback import Handrail
from handrail.sb3.file import load
from handrail.sb3.observations import state_of
from handrail.sb3.policy import policy_of

del _needed, _plays, _reads_actors, _reads_values

__all__ = [
    "Handrail",
    "Holding",
    "load",
    "policy_of",
    "state_of",
]
