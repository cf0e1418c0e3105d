"""Policies in files that can be edited: of a run, of a saved learner, of Stable-Baselines3."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, final

from handrail.cli.models import ENDING as MODEL_ENDING
from handrail.cli.policy_files import Opened, open_policy
from handrail.constraints import Constraint
from handrail.expansion import expand
from handrail.learning import Learner
from handrail.players import make_player
from handrail.policies import Policy
from handrail.reinforce import Reinforce
from handrail.rulebook import Rulebook
from handrail.settings import LearnerSettings
from handrail.storage import prefixed, under, write_atomically

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

_ENDING = ".safetensors"


class Editable(ABC):
    """A policy that came from a file and goes to another one.

    Attributes:
        policy: may be changed in place.
        constraints: that it was made to obey before; often none.
        note: what people should know before it is edited; may be empty.
        ending: of the file that it is saved to.
    """

    policy: Policy
    constraints: Sequence[Constraint]
    note: str
    ending: str

    def __init__(self, opened: Opened, ending: str) -> None:
        self.policy, self.constraints = opened.policy, opened.constraints
        self.note, self.ending = opened.note, ending

    @abstractmethod
    def refuse_law(self, rulebook: Rulebook) -> None:
        """Refuse what could not be saved under these constraints, before any work is done."""

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

    def __init__(self, opened: Opened, agent: Reinforce) -> None:
        assert opened.env is not None  # every learner has one
        super().__init__(opened, _ENDING)
        self._agent, self._env = agent, opened.env

    def refuse_law(self, rulebook: Rulebook) -> None:
        """Settings that contradict each other or the constraints; the policy is not touched."""
        settings = self._settings(rulebook)
        player = make_player(self._env, settings.episodes_per_update)
        Learner(player, self.policy, expand(rulebook.constraints, self.policy), settings)

    def save(self, path: Path, rulebook: Rulebook) -> None:
        """A file for `Reinforce.load`: what was learned stays, and it learns on under the new law.

        How constraints are held comes from the constraint file, everything else from the learner.
        """
        law = self._env, self.policy, rulebook.constraints, self._settings(rulebook)
        own, state = self._agent.snapshot()
        fresh, _ = Reinforce.with_settings(*law).snapshot()  # obeys already: it changes nothing
        without = {key: value for key, value in own.items() if not key.startswith("rules.")}
        tensors = {**without, **prefixed("rules.", under("rules.", fresh))}
        Reinforce.from_snapshot(*law, tensors, state).save(path)

    def _settings(self, rulebook: Rulebook) -> LearnerSettings:
        """How constraints are held by the file, all else by the learner."""
        held = rulebook.settings.model_dump(
            include={"enforcement", "selection", "soft", "tolerance"}
        )
        return LearnerSettings(**{**self._agent.settings.model_dump(), **held})


@final
class EditableModel(Editable):
    """A model of Stable-Baselines3."""

    def __init__(self, opened: Opened, model: BaseAlgorithm) -> None:
        super().__init__(opened, MODEL_ENDING)
        self._model = model

    def refuse_law(self, rulebook: Rulebook) -> None:
        """Nothing: its files hold no constraints, so none can be wrong there."""

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
    opened = open_policy(path, "An edit is about one policy", rulebook)
    if isinstance(opened.owner, Reinforce):
        return EditableLearner(opened, opened.owner)
    return EditableModel(opened, opened.owner)
