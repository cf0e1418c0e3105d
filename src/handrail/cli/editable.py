"""Policies in files that can be edited: of a run, of a saved learner, of Stable-Baselines3."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import gymnasium as gym

from handrail.cli.groups import only_run
from handrail.cli.models import ENDING as MODEL_ENDING
from handrail.cli.models import open_model
from handrail.constraints import Constraint
from handrail.errors import InvalidArgument, InvalidRun, StorageFailure
from handrail.policies import Policy
from handrail.reinforce import Reinforce
from handrail.rulebook import Rulebook
from handrail.saving import make_environment, unpack_constraints
from handrail.settings import LearnerSettings
from handrail.storage import load_state, prefixed, under, write_atomically

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

_ENDING = ".safetensors"


class Editable(ABC):
    """A policy that came from a file and goes to another one.

    Attributes:
        policy: may be changed in place.
        constraints: that it was made to obey before; often none.
        ending: of the file that it is saved to.
    """

    policy: Policy
    constraints: Sequence[Constraint]
    ending: str

    @abstractmethod
    def save(self, path: Path, rulebook: Rulebook) -> None:
        """Write what the policy is part of, whole or not at all.

        Args:
            path: of a new file.
            rulebook: what the policy obeys now.
        """


@final
class EditableLearner(Editable):
    """A learner of Handrail."""

    def __init__(
        self, agent: Reinforce, env: gym.Env[Any, Any], constraints: Sequence[Constraint]
    ) -> None:
        self._agent, self._env = agent, env
        self.policy, self.constraints, self.ending = agent.policy, constraints, _ENDING

    def save(self, path: Path, rulebook: Rulebook) -> None:
        """A file for `Reinforce.load`: what was learned stays, and it learns on under the new law.

        How constraints are held comes from the constraint file, everything else from the learner.
        """
        held = rulebook.settings.model_dump(
            include={"enforcement", "selection", "soft", "tolerance"}
        )
        settings = LearnerSettings(**{**self._agent.settings.model_dump(), **held})
        law = self._env, self.policy, rulebook.constraints, settings
        own, state = self._agent.snapshot()
        fresh, _ = Reinforce.with_settings(*law).snapshot()  # obeys already: it changes nothing
        without = {key: value for key, value in own.items() if not key.startswith("rules.")}
        tensors = {**without, **prefixed("rules.", under("rules.", fresh))}
        Reinforce.from_snapshot(*law, tensors, state).save(path)


@final
class EditableModel(Editable):
    """A model of Stable-Baselines3."""

    def __init__(self, model: BaseAlgorithm, policy: Policy) -> None:
        self._model = model
        self.policy, self.constraints, self.ending = policy, (), MODEL_ENDING

    def save(self, path: Path, rulebook: Rulebook) -> None:
        """As Stable-Baselines3 saves it; constraints are not part of its files."""
        del rulebook
        content = BytesIO()
        self._model.save(content)
        write_atomically(path, content.getvalue())


def open_editable(path: Path, rulebook: Rulebook) -> Editable:
    """The policy of a run's newest checkpoint, of a saved learner, or of a model.

    Args:
        path: a folder or a file.
        rulebook: its environment stands in for one that could not be saved.
    """
    if path.is_dir():
        return _of_run(path)
    if path.suffix == MODEL_ENDING:
        return EditableModel(*open_model(path))
    if not path.exists():
        raise InvalidArgument(
            f"There is no {path}. Give a run, a file that `Reinforce.save` wrote, or a .zip of "
            "Stable-Baselines3."
        )
    return _of_learner(path, rulebook)


def save_editable(editable: Editable, path: Path, rulebook: Rulebook) -> None:
    """`save`, in words where the disk refuses."""
    try:
        editable.save(path, rulebook)
    except OSError as error:
        raise StorageFailure(
            f"{path} cannot be written: {error.strerror or error}. Nothing else was changed."
        ) from error


def _of_run(folder: Path) -> Editable:
    run = only_run(folder, "An edit is about one policy")
    if not run.checkpoints():
        raise InvalidArgument(
            f"{run.folder} has learned nothing yet, so there is no policy to edit. Continue it "
            f"first: handrail resume {run.folder}."
        )
    return EditableLearner(run.agent(), run.rulebook.make_environment(), run.rulebook.constraints)


def _of_learner(path: Path, rulebook: Rulebook) -> Editable:
    tensors, state = load_state(path)
    constraints = unpack_constraints(tensors, state)
    known = state["environment"]
    env = rulebook.make_environment() if known is None else make_environment(known)
    if state["architecture"] is None:
        raise InvalidRun(
            f"{path} holds the weights of a network of your own, which only you can build. Edit it "
            "in Python: agent = Reinforce.load(path, policy=CategoricalPolicy(module)), then "
            "edit(agent.policy, constraints)."
        )
    return EditableLearner(Reinforce.load(path, env, constraints=constraints), env, constraints)
