"""A constraint file, understood; and the one way in which every verb is given constraints.

A `Rulebook` is what a file says: the environment, its names, the constraints and the settings.
`constraints_of` takes what a caller has, be it a list of constraints, a rulebook, a path or a
bundled name, and gives the constraints, checked to be about the policy they are meant for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import gymnasium as gym
import numpy as np
from pydantic import ValidationError

from handrail.constraints import ActionRange, Constraint, PlacedConstraint, counted
from handrail.errors import InvalidConstraint, InvalidRulebook, ShapeMismatch
from handrail.formulas import Formula
from handrail.policies import Policy, Quantity, flat_space, space_of
from handrail.regions import Points
from handrail.rulebook import environment as environments
from handrail.rulebook.catalogue import read_file
from handrail.rulebook.declared_observations import DeclaredObservations, channels_first
from handrail.rulebook.entries import build_constraints
from handrail.rulebook.environment import (
    Environment,
    EnvironmentSpec,
    Interface,
    ObservedRanges,
    Spaces,
    observed_box,
)
from handrail.rulebook.findings import check_format, described, gather
from handrail.rulebook.network_entry import mlp_arguments, network_findings, sizes
from handrail.rulebook.picture import Picture, build_picture
from handrail.rulebook.requirement import DeclaredActions, Requirement
from handrail.rulebook.schema import File
from handrail.rulebook.source import Source, in_words, read
from handrail.rulebook.states_file import ArrayFiles, Files
from handrail.settings import RunSettings, selection_in_full

_NESTED = ("network", "selection")
_DEFAULT_STRATEGY = RunSettings().selection.strategy


@final
@dataclass(frozen=True)
class Rulebook:
    """What a constraint file says.

    Attributes:
        name: the file's, without its ending.
        description: one line for people; may be empty.
        environment: what to make, and how.
        observations: their names, in the environment's order; none where the file gives shapes.
        parts: the shape of each part of an observation, where the file gives these.
        actions: their names, in the environment's order; of branches, such as gear.low.
        ranges: (from, to) of each continuous action; None if actions are discrete.
        branches: how many of the actions each branch has; None if there is a single choice.
        anywhere: (from, to) of observations that the file lets be `any`, by their names.
        constraints: what the policy must obey.
        sentences: the same for people, a sentence per constraint.
        requirements: what each constraint requires, as it was written.
        barriers: h of those that are barriers, by the names of the constraints.
        settings: how the run learns.
        pass_mark: the 100-episode average that counts as solved; by default Gymnasium's threshold.
        picture: the plane that pictures of the policy show.
        source: the file itself, and its lines.
        arrays: the contents of the array files that it refers to, by their names.
    """

    name: str
    description: str
    environment: EnvironmentSpec
    observations: tuple[str, ...]
    parts: Mapping[str, tuple[int, ...]]
    actions: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...] | None
    branches: tuple[int, ...] | None
    anywhere: Mapping[str, tuple[float, float]]
    constraints: tuple[Constraint, ...]
    sentences: tuple[str, ...]
    requirements: tuple[str, ...]
    barriers: Mapping[str, Formula]
    settings: RunSettings
    pass_mark: float | None
    picture: Picture | None
    source: Source = field(repr=False, compare=False)
    arrays: Mapping[str, bytes] = field(repr=False)

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.description}".removesuffix(": "),
            f"environment: {self.environment.id}",
            f"observations: {self.declared_observations}",
            f"actions: {self.declared_actions}",
        ]
        return "\n".join([*lines, *(f"  • {sentence}" for sentence in self.sentences)])

    @property
    def text(self) -> str:
        """The file, verbatim."""
        return self.source.text

    @property
    def quantity(self) -> Quantity:
        """What its constraints are about."""
        return self.declared_actions.quantity

    @property
    def declared_observations(self) -> DeclaredObservations:
        """What the policy sees."""
        return DeclaredObservations(self.observations, self.parts)

    def says_the_same_as(self, other: Rulebook) -> bool:
        """Whether the files are the same, those that they refer to included."""
        return self.text == other.text and self.arrays == other.arrays

    @property
    def declared_actions(self) -> DeclaredActions:
        """What the policy decides on."""
        return DeclaredActions(self.actions, self.ranges, self.branches)

    def make_environment(self, render_mode: str | None = None) -> Environment:
        """The environment; `InvalidRulebook` if there is none, or the file's names do not fit."""
        return environments.make(
            self.environment,
            self.source,
            self.declared_observations,
            self.declared_actions,
            self.anywhere,
            render_mode,
        )

    def environment_for(self, observations: gym.Space[Any]) -> Environment:
        """The same, showing images as a policy with these observations is shown them."""
        env = self.make_environment()
        if self.shown_to(observations) is self:
            return env
        return gym.wrappers.TransformObservation(
            env, lambda image: np.moveaxis(image, -1, 0), observations
        )

    def check_spaces(self, observations: gym.Space[Any], actions: gym.Space[Any]) -> None:
        """Refuse to be about an environment with other spaces."""
        self._check(Interface.of_spaces(observations, actions), "the policy")
        if self.parts:
            _refuse_fractions(self.constraints, flat_space(observations))

    def check_policy(self, policy: Policy, called: str = "the policy") -> None:
        """Refuse to be about a policy with other observations or actions.

        Args:
            policy: is tried at one of the constrained states.
            called: in the message.
        """
        try:
            interface = Interface.of_policy(policy, self.constraints[0].states)
        except ShapeMismatch as error:
            count = counted(self.declared_observations.count, "observation")
            raise InvalidRulebook(
                f"{self.name} names {count} ({self.declared_observations}), but {called} does not "
                f"take them. {error} {self._doubt}"
            ) from error
        self._check(interface, called)

    def _check(self, interface: Interface, called: str) -> None:
        misfit = interface.misfit(self.declared_observations, self.declared_actions, self.anywhere)
        if misfit is not None:
            raise InvalidRulebook(
                f"{self.name} {misfit.said}, but {called} {misfit.found}. {self._doubt} "
                f"{misfit.remedy}"
            )

    def shown_to(self, meant_for: Policy | gym.Space[Any]) -> Rulebook:
        """The same of images as a policy is shown them: with their channels first, where it is so.

        Stable-Baselines3 moves the channels of images (whole numbers up to 255) that an environment
        observes with their channels last, and no others; torch's convolutions take them so.
        """
        declared = self.declared_observations
        moved = [
            name
            for name, shape in self.parts.items()
            if self._is_moved(name, channels_first(shape), meant_for)
        ]
        space = space_of(meant_for) if isinstance(meant_for, Policy) else meant_for
        in_a_row = isinstance(space, gym.spaces.Dict) and len(declared.shape) > 1  # of one part
        if not moved and not in_a_row:
            return self
        order = declared.order_with_channels_first(moved)
        shown = declared.with_channels_first(moved)
        constraints = []
        for one in self.constraints:
            assert isinstance(one, PlacedConstraint)  # as all that a file has
            flat = one.states.reshape(len(one.states), -1)[:, order]
            points = Points(flat if in_a_row else flat.reshape(-1, *shown.shape))
            constraints.append(one.moved_to(points, one.name))
        return replace(self, parts=shown.parts, constraints=tuple(constraints))

    def _is_moved(
        self, part: str, moved: tuple[int, ...] | None, meant_for: Policy | gym.Space[Any]
    ) -> bool:
        """Whether a part of the observations is shown with its channels first."""
        if moved is None:
            return False
        space = space_of(meant_for) if isinstance(meant_for, Policy) else meant_for
        if space is not None:
            whole = space.spaces.get(part) if isinstance(space, gym.spaces.Dict) else space
            return whole is not None and whole.shape == moved and whole.dtype == np.uint8
        assert isinstance(meant_for, Policy)
        as_declared = _takes(meant_for, self.declared_observations.shape)
        return not as_declared and _takes(meant_for, moved)

    @property
    def _doubt(self) -> str:
        return f"Is the file about another environment ({self.environment.id})?"

    def scale(self) -> tuple[float, ...]:
        """The typical size of each observation, in their order; 1 where the file says nothing."""
        if self.parts:
            return (1.0,) * self.declared_observations.count
        return sizes(self.settings.network, self.observations)

    def mlp_arguments(self) -> dict[str, Any]:
        """What `mlp` of a policy is told besides the size of the network, as the file says."""
        return mlp_arguments(self.settings.network, self.observations, self.declared_actions)


def parse(text: str, name: str, files: Files = ".") -> Rulebook:
    """The rulebook that a text describes.

    Args:
        text: YAML.
        name: of the file, with or without its ending; messages call it so.
        files: where array files are that it refers to: a folder, or their contents by name, as
            `Rulebook.arrays` has them.
    """
    source = read(text, name)
    file = check_format(source)
    actions = DeclaredActions.of(file.actions)
    environment = EnvironmentSpec(
        file.environment.id, file.environment.max_episode_steps, file.environment.options
    )
    observed = ObservedRanges(file.names, partial(observed_box, environment, source))
    arrays, observations = ArrayFiles(files), DeclaredObservations.of(file.observations)
    parts: list[Callable[[], Any]] = [
        partial(build_constraints, source, file, observed, arrays),
        partial(build_picture, source, file),
        partial(_check_network, source, file, actions),
    ]
    built, picture, *_ = gather(parts)
    return Rulebook(
        name=name.removesuffix(".yaml").removesuffix(".yml"),
        description=file.description or "",
        environment=environment,
        observations=observations.names,
        parts=observations.parts,
        actions=actions.names,
        ranges=actions.ranges,
        branches=actions.branches,
        anywhere=observed.used,
        constraints=tuple(one.constraint for one in built),
        sentences=tuple(one.words for one in built),
        requirements=tuple(one.requirement.text for one in built),
        barriers={
            one.constraint.name: one.requirement.level
            for one in built
            if isinstance(one.requirement, Requirement) and one.requirement.level is not None
        },
        settings=file.settings,
        pass_mark=_pass_mark(file),
        picture=picture,
        source=source,
        arrays=arrays.contents,
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
    for path, of_name, message in network_findings(
        settings.network, rulebook.observations, rulebook.declared_actions
    ):
        where = in_words(path[:-1] if of_name else path)
        raise InvalidRulebook(f"{rulebook.name}, {where}: {message}")
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
        old, new = values.get(key, {}), overrides.get(key)
        if key == "selection":
            new = selection_in_full(new)
        if isinstance(new, Mapping) and _same_kind(old, new):
            merged[key] = {**old, **new}
    return merged


def _same_kind(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether options carry over: those of one strategy mean nothing to another."""
    before = old.get("strategy", _DEFAULT_STRATEGY)
    return bool(new.get("strategy", before) == before)


def _check_network(source: Source, file: File, actions: DeclaredActions) -> None:
    for path, of_name, message in network_findings(file.settings.network, file.names, actions):
        spot = source.spot(path)
        raise (spot.without_key() if of_name else spot).error(message)


def load_rulebook(path_or_name: str | Path) -> Rulebook:
    """The rulebook of a file.

    Args:
        path_or_name: a path, or the name of a bundled file, with or without .yaml.
    """
    return parse(*read_file(path_or_name), files=Path(path_or_name).parent)


AnyConstraints = Sequence[Constraint] | Rulebook | str | Path


def load_constraints(given: AnyConstraints) -> Sequence[Constraint] | Rulebook:
    """What was given, its file read: a list is looked at when it meets a policy, a file now."""
    if isinstance(given, Constraint):
        raise InvalidConstraint(
            f"Expected a list of constraints, but got the single {type(given).__name__} "
            f"{given.name!r}. Write [constraint]."
        )
    found = load_rulebook(given) if isinstance(given, str | Path) else given
    if not isinstance(found, Rulebook | Sequence):
        raise InvalidConstraint(
            f"Expected a list of constraints, a Rulebook, or the path or bundled name of a "
            f"constraint file, but got {type(given).__name__}."
        )
    return found


def constraints_of(
    given: AnyConstraints, meant_for: Policy | Spaces | None = None
) -> Sequence[Constraint]:
    """The constraints that were given: a list, a `Rulebook`, or a constraint file.

    Args:
        given: a list is checked against a policy by what is done with it.
        meant_for: what they must be about: a policy, or a pair (observation_space, action_space).
    """
    found = load_constraints(given)
    if isinstance(found, Rulebook) and meant_for is not None:
        found = found.shown_to(meant_for[0] if isinstance(meant_for, tuple) else meant_for)
    constraints = found.constraints if isinstance(found, Rulebook) else found
    if not isinstance(found, Rulebook):  # which was checked by the ranges that it declares
        acts_in = ActionRange.of(meant_for[1] if isinstance(meant_for, tuple) else meant_for)
        if acts_in is not None:
            acts_in.refuse_beyond(constraints)
    if isinstance(meant_for, tuple):
        if isinstance(found, Rulebook):
            found.check_spaces(*meant_for)
        _refuse_other_shapes(constraints, meant_for[0])
    elif isinstance(meant_for, Policy) and isinstance(found, Rulebook):
        found.check_policy(meant_for)
    return constraints


def observation_names(given: AnyConstraints) -> tuple[str, ...]:
    """As a constraint file calls them; none of a list."""
    found = load_constraints(given)
    return tuple(found.observations) if isinstance(found, Rulebook) else ()


def _refuse_other_shapes(constraints: Sequence[Constraint], space: gym.Space[Any]) -> None:
    """States have the shape of the observations, or are flat: in C order, as a file names them."""
    observed = flat_space(space).shape
    for one in constraints:
        if isinstance(one, Constraint):
            shape = one.states.shape[1:]
            if shape not in (observed, (math.prod(observed),)):
                raise ShapeMismatch(
                    f"{one.name!r} speaks of states of shape {shape}, but the policy observes "
                    f"{observed}.{_hint(shape, observed)}"
                )


def _refuse_fractions(constraints: Sequence[Constraint], space: gym.spaces.Box) -> None:
    """Images of whole numbers that somebody has scaled are other images, almost black ones."""
    if not np.issubdtype(space.dtype, np.integer):
        return
    for one in constraints:
        fractions = one.states[one.states != np.round(one.states)]
        if len(fractions):
            raise InvalidRulebook(
                f"{one.name!r} speaks of numbers such as {fractions[0]:g}, but {space.dtype} is "
                f"observed, whole numbers from {space.low.min()} to {space.high.max()}. Save the "
                "states as they are observed, neither scaled nor normalised."
            )


def _takes(policy: Policy, shape: tuple[int, ...]) -> bool:
    try:
        policy.outputs(np.zeros((1, *shape)))
    except ShapeMismatch:
        return False
    return True


def _hint(shape: tuple[int, ...], observed: tuple[int, ...]) -> str:
    if len(shape) == 3 and (shape[2], *shape[:2]) == observed:
        return " Images come with their channels first: numpy.moveaxis(state, -1, 0)."
    if math.prod(shape) == math.prod(observed):
        return " Give the states the shape of the observations, or flat ones: state.reshape(-1)."
    return ""
