"""A constraint file, understood: the environment, its names, the constraints and the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, final

from pydantic import ValidationError

from handrail.constraints import Constraint
from handrail.errors import InvalidRulebook
from handrail.rulebook import environments
from handrail.rulebook.actions import Actions
from handrail.rulebook.building import build_constraints
from handrail.rulebook.environments import Environment, EnvironmentSpec
from handrail.rulebook.findings import check_format, described, gather
from handrail.rulebook.format import File
from handrail.rulebook.names import unknown
from handrail.rulebook.pictures import Picture, build_picture
from handrail.rulebook.source import Path, Source, in_words, read
from handrail.settings import DEFAULT_STD, RunSettings

_SCALE: Path = ("settings", "network", "scale")
_STD: Path = ("settings", "network", "std")
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
    if _has_idle_std(settings, rulebook.ranges):
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
    if _has_idle_std(file.settings, actions.ranges):
        raise source.spot(_STD).error(_IDLE_STD)


def _has_idle_std(settings: RunSettings, ranges: Sequence[tuple[float, float]] | None) -> bool:
    """A run keeps every setting, the default of this one as well, so that alone says nothing."""
    return ranges is None and settings.network.std != DEFAULT_STD
