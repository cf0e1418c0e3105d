"""Models of Stable-Baselines3, which may not be installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import gymnasium as gym
import numpy as np

from handrail._storage import load_state, prefixed, under, write_atomically
from handrail.constraints import Constraint, expand
from handrail.errors import InvalidArgument, InvalidRun, ShapeMismatch, StorageFailure
from handrail.learning import Learner, Reinforce, make_environment, make_player, unpack_constraints
from handrail.policies import Policy
from handrail.rulebook import Rulebook
from handrail.runs.group import only_run
from handrail.settings import LearnerSettings

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


@final
@dataclass(frozen=True)
class Opened:
    """What a file or folder holds.

    Attributes:
        policy: on the very parameters of its owner.
        owner: the learner or the model that it belongs to.
        env: that a learner plays in; None of a model.
        shape: of one observation.
        stem: the path of the policy, without an ending.
        said: one line about the policy, for people.
        constraints: that it was made to obey; often none.
        rulebook: that says so, where one does.
        tolerance: the violation that counts as none.
        finest: the least tolerance that it could be held to, whatever a file says.
        note: what people should know before they go on; may be empty.
    """

    policy: Policy
    owner: Reinforce | BaseAlgorithm
    env: gym.Env[Any, Any] | None
    shape: tuple[int, ...]
    stem: Path
    said: str
    constraints: Sequence[Constraint] = ()
    rulebook: Rulebook | None = None
    tolerance: float = 1e-6
    finest: float = 0.0
    note: str = ""


def open_policy(path: Path, why_one: str, rulebook: Rulebook | None = None) -> Opened:
    """The policy of a run's newest checkpoint, of a saved learner, or of a model.

    Args:
        path: a folder or a file.
        why_one: what is said to somebody who names several runs.
        rulebook: its environment stands in for one that could not be saved.
    """
    if path.is_dir():
        return _of_run(path, why_one)
    if not path.exists():
        zipped = path.with_name(f"{path.name}{ENDING}")
        meant = f" Did you mean {zipped}?" if zipped.is_file() else ""
        raise InvalidArgument(
            f"There is no file or folder {path}. Give a run, a file that `Reinforce.save` wrote, "
            f"or a .zip of Stable-Baselines3.{meant}"
        )
    return _of_model(path) if path.suffix == ENDING else _of_learner(path, rulebook)


def about(book: Rulebook, opened: Opened, path: Path) -> Opened:
    """With the constraints of this file instead of its own."""
    refuse_other_sizes(book, opened.policy, path)
    return replace(
        opened,
        constraints=book.constraints,
        rulebook=book,
        tolerance=max(book.settings.tolerance, opened.finest),
    )


def refuse_other_sizes(book: Rulebook, policy: Policy, path: Path) -> None:
    """A constraint file about another environment."""
    n_observations, n_actions = len(book.observations), len(book.actions)
    try:
        found = policy.outputs(np.zeros((1, n_observations))).shape[1]
    except ShapeMismatch as error:
        raise InvalidArgument(
            f"{book.name} names {n_observations} observations ({', '.join(book.observations)}), "
            f"which {path} does not observe. {error}"
        ) from error
    if found != n_actions:
        raise InvalidArgument(
            f"{book.name} names {n_actions} actions ({', '.join(book.actions)}), but {path} "
            f"has {found}."
        )


def refuse_ending(target: Path, ending: str, what: str) -> None:
    """A name that says something else than what the file will be."""
    if target.suffix != ending:
        raise InvalidArgument(
            f"{what} is written as a {ending} file, so --out {target} should be "
            f"{target.with_suffix(ending)}."
        )


def refuse_existing(path: Path, option: str) -> None:
    """A file that is there already, or a folder that is not."""
    if path.exists():
        raise InvalidArgument(
            f"{path} exists already. Delete it first, or choose another name with {option}."
        )
    if not path.parent.is_dir():
        raise InvalidArgument(f"{path} cannot be written: there is no folder {path.parent}.")


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """In words, where the disk refuses."""
    try:
        yield
    except OSError as error:
        raise StorageFailure(f"{path} cannot be written: {error.strerror or error}.") from error


def _of_run(folder: Path, why_one: str) -> Opened:
    run = only_run(folder, why_one)
    if not run.checkpoints():
        raise InvalidArgument(
            f"{run.folder} has learned nothing yet, so there is no policy. Continue it first: "
            f"handrail resume {run.folder}."
        )
    book, agent = run.rulebook, run.agent()
    behind = len(run.records()) - agent.episodes
    note = f", {behind} behind what was recorded: resume it first" if behind > 0 else ""
    return Opened(
        policy=agent.policy,
        owner=agent,
        env=book.make_environment(),
        shape=(len(book.observations),),
        stem=run.folder / "policy",
        said=f"{book.name}, seed {run.seed}: policy after {agent.episodes} episodes{note}",
        constraints=book.constraints,
        rulebook=book,
        tolerance=book.settings.tolerance,
    )


def _of_learner(path: Path, rulebook: Rulebook | None) -> Opened:
    tensors, state = load_state(path)
    constraints = unpack_constraints(tensors, state)
    if state["architecture"] is None:
        raise InvalidRun(
            f"{path} holds the weights of a network of your own, which only you can build. Load it "
            "in Python, agent = Reinforce.load(path, policy=CategoricalPolicy(module)), and edit "
            "or export agent.policy there."
        )
    known = state["environment"]
    if known is None and rulebook is not None:
        env = rulebook.make_environment()
    else:
        env = make_environment(known)
    agent = Reinforce.load(path, env, constraints=constraints)
    return Opened(
        policy=agent.policy,
        owner=agent,
        env=env,
        shape=tuple(env.observation_space.shape or ()),
        stem=path.with_suffix(""),
        said=f"{path}: policy after {agent.episodes} episodes",
        constraints=constraints,
        tolerance=agent.settings.tolerance,
    )


def _of_model(path: Path) -> Opened:
    model, policy, tolerance = open_model(path)
    return Opened(
        policy=policy,
        owner=model,
        env=None,
        shape=tuple(model.observation_space.shape or ()),
        stem=path.with_suffix(""),
        said=f"{path}: {type(model).__name__} after {model.num_timesteps} steps",
        tolerance=tolerance,
        finest=tolerance,
        note=NORMALISED,
    )


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
        super().__init__(opened, ENDING)
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
