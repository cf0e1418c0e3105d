"""A constraint file, understood: the environment, its names, the constraints and the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, final

import gymnasium as gym
import numpy as np
from pydantic import ValidationError

from handrail.constraints import Constraint
from handrail.errors import InvalidConstraint, InvalidRulebook, ShapeMismatch
from handrail.policies import DEFAULT_STD, Quantity
from handrail.rulebook import environment as environments
from handrail.rulebook.entries import build_constraints
from handrail.rulebook.environment import Environment, EnvironmentSpec
from handrail.rulebook.findings import check_format, described, did_you_mean, gather, unknown
from handrail.rulebook.picture import Picture, build_picture
from handrail.rulebook.requirement import Actions
from handrail.rulebook.schema import File
from handrail.rulebook.source import KeyPath, Source, Spot, in_words, read, refuse_large
from handrail.settings import RunSettings

_SCALE: KeyPath = ("settings", "network", "scale")


_STD: KeyPath = ("settings", "network", "std")


_NESTED = ("network", "selection")


_IDLE_STD = "it is how widely continuous actions vary, but these are discrete. Leave it out."


_DEFAULT_STRATEGY = RunSettings().selection.strategy


@final
@dataclass(frozen=True)
class Rulebook:
    """What a constraint file says.

    Attributes:
        name: the file's, without its ending.
        description: one line for people; may be empty.
        environment: what to make, and how.
        observations: their names, in the environment's order.
        actions: their names, in the environment's order.
        ranges: (from, to) of each continuous action; None if actions are discrete.
        constraints: what the policy must obey.
        sentences: the same for people, a sentence per constraint.
        settings: how the run learns.
        pass_mark: the 100-episode average that counts as solved; by default Gymnasium's threshold.
        picture: the plane that pictures of the policy show.
        source: the file itself, and its lines.
    """

    name: str
    description: str
    environment: EnvironmentSpec
    observations: tuple[str, ...]
    actions: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...] | None
    constraints: tuple[Constraint, ...]
    sentences: tuple[str, ...]
    settings: RunSettings
    pass_mark: float | None
    picture: Picture | None
    source: Source = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        """The file, verbatim."""
        return self.source.text

    @property
    def quantity(self) -> Quantity:
        """What its constraints are about."""
        return Actions(self.actions, self.ranges).quantity

    def make_environment(self, render_mode: str | None = None) -> Environment:
        """The environment; `InvalidRulebook` if there is none, or the file's names do not fit."""
        actions = Actions(self.actions, self.ranges)
        return environments.make(
            self.environment, self.source, len(self.observations), actions, render_mode
        )

    def scale(self) -> tuple[float, ...]:
        """The typical size of each observation, in their order; 1 where the file says nothing."""
        scale = self.settings.network.scale
        return tuple(scale.get(name, 1.0) for name in self.observations)


def parse(text: str, name: str) -> Rulebook:
    """The rulebook that a text describes.

    Args:
        text: YAML.
        name: of the file, with or without its ending; messages call it so.
    """
    source = read(text, name)
    file = check_format(source)
    environment, actions = file.environment, Actions.of(file.actions)
    parts: list[Callable[[], Any]] = [
        partial(build_constraints, source, file),
        partial(build_picture, source, file),
        partial(_check_scale, source, file),
        partial(_check_std, source, file, actions),
    ]
    built, picture, *_ = gather(parts)
    return Rulebook(
        name=name.removesuffix(".yaml").removesuffix(".yml"),
        description=file.description or "",
        environment=EnvironmentSpec(
            environment.id, environment.max_episode_steps, environment.options
        ),
        observations=tuple(file.observations),
        actions=actions.names,
        ranges=actions.ranges,
        constraints=tuple(one.constraint for one in built),
        sentences=tuple(one.words for one in built),
        settings=file.settings,
        pass_mark=_pass_mark(file),
        picture=picture,
        source=source,
    )


def _pass_mark(file: File) -> float | None:
    """The file's own, or Gymnasium's where the episodes are Gymnasium's."""
    if file.pass_mark is not None or file.environment.max_episode_steps is not None:
        return file.pass_mark
    return environments.reward_threshold(file.environment.id)


def with_settings(rulebook: Rulebook, **overrides: Any) -> Rulebook:
    """The same rulebook with some settings changed, checked as the file's own are.

    Args:
        rulebook: stays as it is.
        overrides: by the names of `RunSettings`; `network` and `selection` may name some of their
            settings only. Another strategy of selection starts from its own defaults.
    """
    values = _merged(_chosen(rulebook.settings), overrides)
    try:
        settings = RunSettings.model_validate(values)
    except ValidationError as error:
        lines = [
            f"{rulebook.name}, {in_words(finding.path)}: {finding.text}"
            for finding in described(error, inside=("settings",))
        ]
        raise InvalidRulebook("\n".join(lines)) from None
    for name in settings.network.scale:
        if name not in rulebook.observations:
            message = unknown("observation", name, rulebook.observations)
            raise InvalidRulebook(f"{rulebook.name}, {in_words(_SCALE)}: {message}")
    if _has_idle_std(settings, rulebook.quantity):
        raise InvalidRulebook(f"{rulebook.name}, {in_words(_STD)}: {_IDLE_STD}")
    return replace(rulebook, settings=settings)


def _chosen(settings: RunSettings) -> dict[str, Any]:
    """What was set, defaults left out; a strategy is named even where it was left out."""
    values = settings.model_dump(exclude_unset=True)
    if "selection" in values:
        values["selection"]["strategy"] = settings.selection.strategy
    return values


def _merged(values: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides count more; of nested settings, those that are not named stay as they are."""
    merged = {**values, **overrides}
    for key in _NESTED:
        old, new = values.get(key, {}), _in_full(key, overrides.get(key))
        if isinstance(new, Mapping) and _same_kind(old, new):
            merged[key] = {**old, **new}
    return merged


def _in_full(key: str, value: Any) -> Any:
    """`selection: maximum_return` is short for `selection: {strategy: maximum_return}`."""
    return {"strategy": value} if key == "selection" and isinstance(value, str) else value


def _same_kind(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether options carry over: those of one strategy mean nothing to another."""
    before = old.get("strategy", _DEFAULT_STRATEGY)
    return bool(new.get("strategy", before) == before)


def _check_scale(source: Source, file: File) -> None:
    for name in file.settings.network.scale:
        if name not in file.observations:
            spot = source.spot((*_SCALE, name)).without_key()
            raise spot.error(unknown("observation", name, file.observations))


def _check_std(source: Source, file: File, actions: Actions) -> None:
    if _has_idle_std(file.settings, actions.quantity):
        raise source.spot(_STD).error(_IDLE_STD)


def _has_idle_std(settings: RunSettings, quantity: Quantity) -> bool:
    """A run keeps every setting, the default of this one as well, so that alone says nothing."""
    return not quantity.is_continuous and settings.network.std != DEFAULT_STD


def bundled() -> tuple[str, ...]:
    """The names of the files that come with Handrail."""
    names = (file.name for file in _bundled_files().iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def load_rulebook(path_or_name: str | Path) -> Rulebook:
    """The rulebook of a file.

    Args:
        path_or_name: a path, or the name of a bundled file, with or without .yaml.
    """
    try:
        file = _find(path_or_name)
        if isinstance(file, Path):
            refuse_large(file.stat().st_size, file.name)
        content = file.read_bytes()
    except OSError as error:
        raise InvalidRulebook(f"Cannot read {str(path_or_name)!r}: {error.strerror}.") from error
    return parse(_decoded(content, file.name), file.name)


def _bundled_files() -> Traversable:
    return resources.files("handrail.rulebook") / "bundled"


def _find(path_or_name: str | Path) -> Path | Traversable:
    path = Path(path_or_name)
    if path.is_file():
        return path
    name = str(path_or_name).removesuffix(".yaml")
    if name in bundled():
        return _bundled_files() / f"{name}.yaml"
    what = "is a directory, not a file" if path.is_dir() else "does not exist"
    raise InvalidRulebook(
        f"{str(path_or_name)!r} {what}. Give the path of a constraint file, or one of those that "
        f"come with Handrail: {', '.join(bundled())}.{did_you_mean(name, bundled())}"
    )


def _decoded(content: bytes, file: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Spot(file, line).error(
            f"the byte {content[error.start]:#04x} is not UTF-8. A constraint file is text (YAML); "
            "if this is one, save it as UTF-8."
        ) from None


AnyConstraints = Sequence[Constraint] | Rulebook | str | Path


@final
@dataclass(frozen=True)
class Stated:
    """What must hold, and the file that says so, if one does."""

    constraints: Sequence[Constraint]
    rulebook: Rulebook | None

    @classmethod
    def of(cls, given: AnyConstraints) -> Stated:
        """A list is looked at when it meets a policy; a file is read now."""
        if isinstance(given, Constraint):
            raise InvalidConstraint(
                f"Expected a list of constraints, but got the single {type(given).__name__} "
                f"{given.name!r}. Write [constraint]."
            )
        if isinstance(given, str | Path):
            given = load_rulebook(given)
        if isinstance(given, Rulebook):
            return cls(given.constraints, given)
        if isinstance(given, Sequence) and not isinstance(given, str):
            return cls(given, None)
        raise InvalidConstraint(
            f"Expected a list of constraints, a Rulebook, or the path or bundled name of a "
            f"constraint file, but got {type(given).__name__}."
        )

    def check_spaces(self, observations: gym.Space[Any], actions: gym.Space[Any]) -> None:
        """Refuse what is about another environment than one with these spaces."""
        if self.rulebook is not None:
            _check_names(self.rulebook, observations, actions)
            _check_ranges(self.rulebook, actions)
        for one in self.constraints:
            if isinstance(one, Constraint) and one.states.shape[1:] != observations.shape:
                raise ShapeMismatch(
                    f"{one.name!r} speaks of states of shape {one.states.shape[1:]}, but the "
                    f"policy observes {observations.shape}.{_hint(one, observations)}"
                )


def _check_names(rulebook: Rulebook, observations: gym.Space[Any], actions: gym.Space[Any]) -> None:
    n_observations = int(np.prod(observations.shape or (0,)))
    if n_observations != len(rulebook.observations):
        raise InvalidRulebook(
            f"{rulebook.name} names {len(rulebook.observations)} observations "
            f"({', '.join(rulebook.observations)}), but the policy observes {n_observations} "
            f"numbers: it is about another environment ({rulebook.environment.id})."
        )
    continuous = isinstance(actions, gym.spaces.Box)
    if continuous != rulebook.quantity.is_continuous:
        raise InvalidRulebook(
            f"{rulebook.name} is about {'discrete' if continuous else 'continuous'} actions, but "
            f"the policy acts in {actions}: it is about another environment "
            f"({rulebook.environment.id})."
        )
    n_actions = _count(actions)
    if n_actions != len(rulebook.actions):
        raise InvalidRulebook(
            f"{rulebook.name} names {len(rulebook.actions)} actions "
            f"({', '.join(rulebook.actions)}), but the policy has {n_actions}: it is about another "
            f"environment ({rulebook.environment.id})."
        )


def _check_ranges(rulebook: Rulebook, actions: gym.Space[Any]) -> None:
    """Numbers of a file mean something else on another scale."""
    if rulebook.ranges is None or not isinstance(actions, gym.spaces.Box):
        return
    ranges = np.stack([actions.low.ravel(), actions.high.ravel()], axis=1)
    if not np.allclose(rulebook.ranges, ranges, rtol=1e-6):
        raise InvalidRulebook(
            f"{rulebook.name} gives the actions the ranges {_intervals(rulebook.ranges)}, but the "
            f"policy acts in {_intervals(ranges)}. Write the file in these numbers, or take off "
            "what scales the actions (RescaleAction)."
        )


def _intervals(ranges: Iterable[Iterable[float]]) -> str:
    return ", ".join(f"[{low:g}, {high:g}]" for low, high in ranges)


def _count(actions: gym.Space[Any]) -> int:
    if isinstance(actions, gym.spaces.Box):
        return int(np.prod(actions.shape))
    assert isinstance(actions, gym.spaces.Discrete)  # no policy of ours acts in anything else
    return int(actions.n)


def _hint(constraint: Constraint, observations: gym.Space[Any]) -> str:
    shape = constraint.states.shape[1:]
    if len(shape) == 3 and (shape[2], *shape[:2]) == observations.shape:
        return " Images come with their channels first: numpy.moveaxis(state, -1, 0)."
    if np.prod(shape) == np.prod(observations.shape or ()):
        return " Give the states the shape of the observations."
    return ""
