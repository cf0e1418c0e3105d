"""Experiments by name: what is done for each seed, for how many of them, and which figures show it.

They are declared in one file, experiments.yaml. A study says what to do and nothing of how; `job`
knows who does it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, Self, final

from pydantic import BaseModel, Field, ValidationError

from handrail.rulebook import Rulebook, load_rulebook, with_settings
from handrail.rulebook import parse as parse_rulebook
from handrail.rulebook.source import KeyPath, read
from handrail.settings import STRICT, expectation

Count = Annotated[int, Field(ge=1)]


@final
@dataclass(frozen=True)
class Limits:
    """How large a study may be: what `--quick` and the tests cut it down to."""

    episodes: int
    timesteps: int
    rows: int


class Study(BaseModel, ABC):
    """What to do for one seed."""

    model_config = STRICT

    @abstractmethod
    def within(self, limits: Limits) -> Self:
        """The same, no larger than the limits."""

    @property
    @abstractmethod
    def rough_seconds(self) -> float:
        """A guess at what it takes, for the estimate of the time left until something is known."""

    def inputs(self) -> dict[str, Any]:
        """Everything that its result depends on, files by their content."""
        return self.model_dump()


class _Learning(Study, ABC):
    """Learns from a constraint file."""

    constraints: str
    """A bundled constraint file, or one of `paper/constraints`: the environment, the names, what
    must hold."""
    episodes: Count
    """To learn from."""
    settings: dict[str, Any] = {}
    """Other than those of the file."""

    def file(self) -> Rulebook:
        """The file as it is."""
        return constraint_file(self.constraints)

    def rulebook(self, seed: int) -> Rulebook:
        """The file with this study's settings."""
        return with_settings(self.file(), **self.settings, episodes=self.episodes, seed=seed)

    def within(self, limits: Limits) -> Self:
        """Fewer episodes."""
        return self.model_copy(update={"episodes": min(self.episodes, limits.episodes)})

    @property
    def rough_seconds(self) -> float:
        """By the episode."""
        return 0.1 * self.episodes

    def inputs(self) -> dict[str, Any]:
        """The file's text, too."""
        return {**super().inputs(), "text": self.file().text}


def constraint_file(name: str) -> Rulebook:
    """One that only the reproduction has, or a bundled one."""
    own = resources.files("paper") / "constraints" / f"{name}.yaml"
    return (
        parse_rulebook(own.read_text("utf-8"), own.name) if own.is_file() else load_rulebook(name)
    )


@final
class Training(_Learning):
    """A run as `handrail train` makes it."""

    kind: Literal["training"]


@final
class Prediction(_Learning):
    """How well the tangent kernel predicts each step (the paper's appendix A)."""

    kind: Literal["prediction"]
    averaged: bool = False
    """Average the gradient over the steps of the episode, as a mean loss does, instead of adding
    it up as the paper's equations do."""


@final
class StateChoice(_Learning):
    """What the states of a region are chosen by, episode by episode (the paper's appendix B)."""

    kind: Literal["state_choice"]
    maps: list[Annotated[int, Field(ge=0)]]
    """Episodes whose policy, trajectory and chosen states are kept."""


@final
class UpdateTimes(Study):
    """The time of one constrained update over the sizes of its parts."""

    kind: Literal["update_times"]
    width: Count
    """Of the hidden layer."""
    batch: list[Count]
    """Lengths of the trajectory, n_B, at the first number of constraints."""
    constrained: list[Count]
    """Numbers of constrained states, n_S, at the first length of the trajectory."""
    points: list[Count]
    """Numbers of points of a region, n_t, that maximum return chooses among."""

    def within(self, limits: Limits) -> Self:
        """Smaller ones."""
        kept = {
            name: [size for size in sizes if size <= limits.rows] or sizes[:1]
            for name, sizes in (
                ("batch", self.batch),
                ("constrained", self.constrained),
                ("points", self.points),
            )
        }
        return self.model_copy(update=kept)

    @property
    def rough_seconds(self) -> float:
        """By the row."""
        return 0.005 * (sum(self.batch) + sum(self.constrained))


@final
class Playground(BaseModel):
    """The environment of Q-learning, which has no constraint file."""

    model_config = STRICT

    id: str
    """As Gymnasium knows it."""
    max_episode_steps: Count | None = None
    """When episodes are cut off; by default the environment's own limit."""


@final
class QSettings(BaseModel):
    """Of double deep Q-learning, in the words of its literature."""

    model_config = STRICT

    hidden: Annotated[list[Count], Field(min_length=1)]
    """Widths of the hidden layers."""
    step_size: Annotated[float, Field(gt=0)]
    """Of Adam, at first."""
    step_size_final: Annotated[float, Field(ge=0)]
    """To which it falls in a line over all steps."""
    batch: Count
    """Transitions that an update learns from."""
    memory: Count
    """Newest transitions that are remembered."""
    learning_starts: Annotated[int, Field(ge=0)]
    """Steps before the first update."""
    update_every: Count
    """Steps from one update to the next."""
    discount: Annotated[float, Field(ge=0, le=1)]
    """γ."""
    lookahead: Count
    """Rewards that a target adds up before it values the state after them: n-step returns."""
    target_rate: Annotated[float, Field(gt=0, le=1)]
    """τ: how far the target network follows the online one after every update."""
    exploration_fraction: Annotated[float, Field(gt=0, le=1)]
    """Of all steps: in which the probability of a random action falls from 1."""
    exploration_final: Annotated[float, Field(ge=0, le=1)]
    """To which it falls."""


@final
class QLearning(Study):
    """Double deep Q-learning."""

    kind: Literal["double_q_learning"]
    environment: Playground
    """To learn in."""
    pass_mark: float
    """The 100-episode average that counts as solved."""
    timesteps: Count
    """Environment steps to learn from."""
    evaluation: Count = 100
    """Episodes that the greedy policy plays in the end."""
    settings: QSettings
    """Of the learner."""

    def within(self, limits: Limits) -> Self:
        """Fewer steps, and an evaluation no longer than the learning of others."""
        return self.model_copy(
            update={
                "timesteps": min(self.timesteps, limits.timesteps),
                "evaluation": min(self.evaluation, limits.episodes),
            }
        )

    @property
    def rough_seconds(self) -> float:
        """By the step."""
        return 0.0008 * self.timesteps


AnyStudy = Annotated[
    Training | Prediction | StateChoice | UpdateTimes | QLearning, Field(discriminator="kind")
]


@final
class _Entry(BaseModel):
    """One experiment in the file."""

    model_config = STRICT

    title: Annotated[str, Field(min_length=1)]
    label: Annotated[str, Field(min_length=1)]
    figures: Annotated[list[str], Field(min_length=1)]
    seeds: Count | None = None
    study: AnyStudy


@final
class _File(BaseModel):
    """The file; `shared` is there for YAML's anchors only."""

    model_config = STRICT

    seeds: Count
    shared: list[dict[str, Any]] = []
    experiments: Mapping[str, _Entry]


@final
@dataclass(frozen=True)
class Experiment:
    """One experiment.

    Attributes:
        name: in the file.
        title: for people.
        label: the same in a few words, for legends.
        figures: names of the exhibits that show it.
        seeds: how many, from 0 on.
        study: what is done for each seed.
    """

    name: str
    title: str
    label: str
    figures: tuple[str, ...]
    seeds: int
    study: Study

    def sized(self, seeds: int | None, limits: Limits | None) -> Experiment:
        """The same with other numbers of seeds, and no larger than the limits."""
        study = self.study if limits is None else self.study.within(limits)
        return replace(self, seeds=self.seeds if seeds is None else seeds, study=study)


@cache
def experiments() -> tuple[Experiment, ...]:
    """All of them, in the order of the file."""
    file = resources.files("paper") / "experiments.yaml"
    return parse(file.read_text(encoding="utf-8"), file.name)


def parse(text: str, file: str) -> tuple[Experiment, ...]:
    """The experiments that a text describes; `InvalidRulebook` says in which line it does not.

    Args:
        text: YAML, of the dialect that constraint files have.
        file: what messages call it.
    """
    source = read(text, file)
    try:
        found = _File.model_validate(source.data)
    except ValidationError as error:
        first = error.errors()[0]
        raise source.spot(_path(first["loc"])).error(expectation(first)) from None
    return tuple(
        Experiment(
            name, one.title, one.label, tuple(one.figures), one.seeds or found.seeds, one.study
        )
        for name, one in found.experiments.items()
    )


def _path(location: KeyPath) -> KeyPath:
    """Pydantic puts the study's kind behind `study`; the file has no such key."""
    return (*location[:3], *location[4:]) if location[2:3] == ("study",) else location
