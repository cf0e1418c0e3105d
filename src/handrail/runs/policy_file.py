"""Any policy that is in a file, opened the same way, and saved again after it was changed.

It may be in a run (its newest checkpoint), in a file that a learner saved, or in a .zip of
Stable-Baselines3, which may not be installed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

import gymnasium as gym
import numpy as np
from torch import nn
from typing_extensions import override

from handrail._storage import write_atomically
from handrail.constraints import Constraint, counted
from handrail.errors import InvalidArgument, InvalidRun
from handrail.export import open_export
from handrail.learning import Checkpoint, Learner, Reinforce, make_environment
from handrail.policies import BranchProbability, Policy, flat_space
from handrail.rulebook import Rulebook, constraints_of, parse
from handrail.runs.best_policy import BEST_WINDOW
from handrail.runs.group import only_run
from handrail.runs.run import Run
from handrail.settings import LearnerSettings

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

_LEARNER, _MODEL, _EXPORTS = ".safetensors", ".zip", (".onnx", ".npz")

# What a file of Stable-Baselines3 leaves out: the running averages of VecNormalize are another one.
_NORMALISED = (
    "if it was trained with VecNormalize, it sees normalised observations, which a .zip does not "
    "say: name what VecNormalize.save wrote (--statistics), or states and constraints are taken to "
    "be in those numbers."
)


@dataclass(frozen=True, kw_only=True)
class SavedPolicy(ABC):
    """A policy that came from a file.

    Attributes:
        policy: on the very parameters of what it is part of; may be changed in place.
        stem: the path of the policy, without an ending.
        description: one line about the policy, for people.
        spaces: of observations and actions.
        env: that a learner plays in; None of a model.
        constraints: that it was made to obey; often none.
        rulebook: that says so, where one does.
        tolerance: the violation that counts as none, where somebody has said so.
        note: what people should know before they go on; may be empty.
    """

    policy: Policy
    stem: Path
    description: str
    spaces: tuple[gym.Space[Any], gym.Space[Any]]
    env: gym.Env[Any, Any] | None = None
    constraints: Sequence[Constraint] = ()
    rulebook: Rulebook | None = None
    tolerance: float | None = None
    note: str = ""

    def with_constraints_of(self, rulebook: Rulebook) -> Self:
        """The same policy with the constraints of a file instead of its own."""
        return replace(
            self,
            constraints=constraints_of(rulebook, self.own_spaces),
            rulebook=rulebook,
            tolerance=rulebook.settings.tolerance,
        )

    @property
    @abstractmethod
    def ending(self) -> str:
        """Of the file that it is saved to."""

    def check_constraints_of(self, rulebook: Rulebook) -> None:
        """Refuse what could not be saved under these constraints, before any work is done."""
        constraints_of(rulebook, self.own_spaces)

    @property
    def own_spaces(self) -> tuple[gym.Space[Any], gym.Space[Any]]:
        """The same with the parts of observations, where these are known."""
        return self.spaces

    @abstractmethod
    def save(self, path: Path, rulebook: Rulebook) -> None:
        """Write what the policy is part of, whole or not at all.

        Args:
            path: of a new file.
            rulebook: what the policy obeys now.
        """


def open_policy(
    path: Path, purpose: str, rulebook: Rulebook | None = None, statistics: Path | None = None
) -> SavedPolicy:
    """The policy of a run's newest checkpoint, of a saved learner, or of a model.

    Args:
        path: a folder or a file.
        purpose: what one policy is wanted for; said to somebody who names several runs.
        rulebook: its environment stands in for one that could not be saved.
        statistics: of a model behind VecNormalize: the file that `VecNormalize.save` wrote.
    """
    if statistics is not None and path.suffix != _MODEL:
        raise InvalidArgument(
            f"Statistics of VecNormalize belong to a .zip of Stable-Baselines3, but {path} is none."
        )
    if path.is_dir():
        return _of_run(path, purpose)
    if not path.exists():
        zipped = path.with_name(f"{path.name}{_MODEL}")
        meant = f" Did you mean {zipped}?" if zipped.is_file() else ""
        raise InvalidArgument(
            f"There is no file or folder {path}. Give a run, a file that `Reinforce.save` wrote, "
            f"a .zip of Stable-Baselines3, or an exported file (.onnx, .npz).{meant}"
        )
    if path.suffix in _EXPORTS:
        return _of_export(path)
    return _of_model(path, statistics) if path.suffix == _MODEL else _of_learner(path, rulebook)


def open_best_policy(path: Path, purpose: str) -> SavedPolicy:
    """The policy of a run when its last 100 episodes had scored best.

    Args:
        path: of the run.
        purpose: what one policy is wanted for; said to somebody who names several runs.
    """
    if not path.is_dir():
        raise InvalidArgument(
            f"Only a run keeps its best policy beside its last, and {path} is none."
        )
    run = only_run(path, purpose)
    learner = run.best_agent()
    return _learner_of_run(run, learner, best_in_words(run, learner), "best")


def best_in_words(run: Run, learner: Learner) -> str:
    """Which policy a run's best is."""
    return (
        f"best policy, after {counted(learner.episodes, 'episode')}, of which the last "
        f"{BEST_WINDOW} averaged {run.best().average:.1f}"
    )


@final
@dataclass(frozen=True, kw_only=True)
class _SavedLearner(SavedPolicy):
    """A policy of a learner of Handrail."""

    learner: Learner

    @property
    @override
    def ending(self) -> str:
        return _LEARNER

    @override
    def check_constraints_of(self, rulebook: Rulebook) -> None:
        super().check_constraints_of(rulebook)
        type(self.learner).check(*self._under(rulebook))

    @override
    def save(self, path: Path, rulebook: Rulebook) -> None:
        """A file for `load`: what was learned stays, and it learns on under the constraints.

        How constraints are held comes from the constraint file, everything else from the learner.
        """
        kind, parts = type(self.learner), self._under(rulebook)
        fresh = kind.with_settings(*parts)  # the policy obeys already, so it is not changed
        learned = replace(self.learner.checkpoint(), enforcer=fresh.checkpoint().enforcer)
        kind.with_settings(*parts, learned).save(path)

    def _under(
        self, rulebook: Rulebook
    ) -> tuple[gym.Env[Any, Any], Policy, Sequence[Constraint], LearnerSettings]:
        """The parts of a learner that goes on with this policy under the constraints of a file."""
        assert self.env is not None  # every learner has one
        held = rulebook.settings.model_dump(
            include={"enforcement", "selection", "soft", "tolerance"}
        )
        settings = LearnerSettings(**{**self.learner.settings.model_dump(), **held})
        return self.env, self.policy, rulebook.constraints, settings


@final
@dataclass(frozen=True, kw_only=True)
class _SavedModel(SavedPolicy):
    """A policy of a model of Stable-Baselines3."""

    model: BaseAlgorithm

    @property
    @override
    def own_spaces(self) -> tuple[gym.Space[Any], gym.Space[Any]]:
        return self.model.observation_space, self.model.action_space

    @property
    @override
    def ending(self) -> str:
        return _MODEL

    @override
    def save(self, path: Path, rulebook: Rulebook) -> None:
        """As Stable-Baselines3 saves it; constraints are not part of its files."""
        del rulebook
        content = BytesIO()
        self.model.save(content)
        write_atomically(path, content.getvalue())


@final
@dataclass(frozen=True, kw_only=True)
class _SavedExport(SavedPolicy):
    """A policy of an exported file, which is not written again."""

    suffix: str

    @property
    @override
    def ending(self) -> str:
        return self.suffix

    @override
    def check_constraints_of(self, rulebook: Rulebook) -> None:
        del rulebook
        raise self._refusal()

    @override
    def save(self, path: Path, rulebook: Rulebook) -> None:
        del path, rulebook
        raise self._refusal()

    def _refusal(self) -> InvalidArgument:
        return InvalidArgument(
            "An exported file is not changed. Edit the run or the model that it was exported from, "
            "and export that again."
        )


def _of_run(folder: Path, purpose: str) -> SavedPolicy:
    run = only_run(folder, purpose)
    if not run.checkpoints():
        raise InvalidArgument(
            f"{run.folder} has learned nothing yet, so there is no policy. Continue it first: "
            f"handrail resume {run.folder}."
        )
    learner = run.agent()
    behind = len(run.records()) - learner.episodes
    note = f", {behind} behind what was recorded: resume it first" if behind > 0 else ""
    learned = f"policy after {counted(learner.episodes, 'episode')}{note}"
    return _learner_of_run(run, learner, learned, "policy")


def _learner_of_run(run: Run, learner: Learner, learned: str, stem: str) -> SavedPolicy:
    book = run.rulebook
    env = book.make_environment()
    return _SavedLearner(
        policy=learner.policy,
        learner=learner,
        env=env,
        spaces=(env.observation_space, env.action_space),
        stem=run.folder / stem,
        description=f"{book.name}, seed {run.seed}: {learned}",
        constraints=book.constraints,
        rulebook=book,
        tolerance=book.settings.tolerance,
    )


def _of_learner(path: Path, rulebook: Rulebook | None) -> SavedPolicy:
    saved = Checkpoint.load(path)
    constraints = saved.constraints.build()
    if saved.policy.architecture is None:
        raise InvalidRun(
            f"{path} holds the weights of a network of your own, which only you can build. Load it "
            "in Python, agent = Reinforce.load(path, policy=CategoricalPolicy(module)), and edit "
            "or export agent.policy there."
        )
    if saved.environment is None and rulebook is not None:
        env = rulebook.make_environment()
    else:
        env = make_environment(saved.environment)
    learner = Reinforce.load(path, env, constraints=constraints)
    return _SavedLearner(
        policy=learner.policy,
        learner=learner,
        env=env,
        spaces=(env.observation_space, env.action_space),
        stem=path.with_suffix(""),
        description=f"{path}: policy after {counted(learner.episodes, 'episode')}",
        constraints=constraints,
        tolerance=learner.settings.tolerance,
    )


def _of_model(path: Path, statistics: Path | None) -> SavedPolicy:
    try:
        from handrail import sb3  # noqa: PLC0415  (optional)
    except ModuleNotFoundError as error:
        raise InvalidArgument(f"{path} is a model of Stable-Baselines3. {error}.") from error
    model = sb3.load(path, statistics=statistics)
    return _SavedModel(
        policy=sb3.policy_of(model),
        model=model,
        spaces=(flat_space(model.observation_space), model.action_space),
        stem=path.with_suffix(""),
        description=f"{path}: {type(model).__name__} after {counted(model.num_timesteps, 'step')}",
        note=_NORMALISED if statistics is None else "",
    )


def _of_export(path: Path) -> SavedPolicy:
    opened = open_export(path)
    text = str(opened.metadata.get("constraints", ""))
    rulebook = parse(text, f"{path} (its constraint file)", opened.arrays) if text else None
    policy, layers = opened.policy, opened.policy.layers()
    assert layers is not None  # it was put together from some
    shape: tuple[int, ...] = (layers.linear[0].in_features,)
    if rulebook is not None and len(rulebook.declared_observations.shape) > 1:
        # Such a file takes the numbers of an image in a row.
        shape = rulebook.declared_observations.shape
        policy = policy.with_module(nn.Sequential(nn.Flatten(), policy.module))
    seen = gym.spaces.Box(-np.inf, np.inf, shape)
    n_actions = opened.policy.quantity.n_actions(layers.linear[-1].out_features)
    done: gym.Space[Any] = gym.spaces.Discrete(n_actions)
    if isinstance(opened.policy.quantity, BranchProbability):
        done = gym.spaces.MultiDiscrete(list(opened.policy.quantity.sizes))
    elif opened.policy.quantity.is_continuous:
        done = gym.spaces.Box(-np.inf, np.inf, (n_actions,))
    return _SavedExport(
        policy=policy,
        spaces=(seen, done),
        stem=path.with_suffix(""),
        suffix=path.suffix,
        description=f"{path}: as it was exported, in {opened.metadata.get('precision')}",
        constraints=() if rulebook is None else rulebook.constraints,
        rulebook=rulebook,
    )
