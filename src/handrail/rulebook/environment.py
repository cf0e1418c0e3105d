"""The environment that a file names, and whether what the file says fits it.

One owner of that question, whoever asks it: `make`, of the environment it has made, and every verb
that is given a file, of the policy (or of the spaces) it is about.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, final

import gymnasium as gym
import numpy as np

from handrail._types import Array
from handrail.constraints import counted
from handrail.errors import InvalidPolicy
from handrail.policies import Policy, flat_space, sizes_of
from handrail.rulebook.declared_observations import DeclaredObservations, shape_in_words
from handrail.rulebook.region_schema import ANY, LARGEST
from handrail.rulebook.requirement import DeclaredActions
from handrail.rulebook.source import KeyPath, Source, Spot

Environment: TypeAlias = gym.Env[Any, Any]
Spaces: TypeAlias = tuple[gym.Space[Any], gym.Space[Any]]

_IN_ORDER = "Name each of them, in the order of the environment"

_KNOWN_ACTIONS = (
    gym.spaces.Discrete,
    gym.spaces.Box,
    gym.spaces.MultiDiscrete,
    gym.spaces.MultiBinary,
)


@final
@dataclass(frozen=True)
class EnvironmentSpec:
    """A Gymnasium environment and how to make it.

    Attributes:
        id: the name it is registered under.
        max_episode_steps: when episodes are cut off; None for the environment's own limit.
        options: what else gymnasium.make is told.
    """

    id: str
    max_episode_steps: int | None
    options: Mapping[str, bool | int | float | str]


class Misfit(NamedTuple):
    """Something that a file says and that is not so: it `said` …, but `found` ….

    Attributes:
        path: in the file.
        said: a verb and what the file says.
        found: a verb and what is so.
        remedy: for the author of the file.
    """

    path: KeyPath
    said: str
    found: str
    remedy: str


@final
@dataclass(frozen=True)
class Interface:
    """How many numbers go in and come out, and what those are.

    Attributes:
        n_observations: how many numbers are observed.
        n_actions: how many discrete actions there are, or dimensions of a continuous one.
        continuous: which of the two.
        ranges: (n_actions, 2) of continuous actions, where they are known.
        observed: (n_observations, 2), what is observed at all, where that is known.
        branches: how many actions each branch has, where there are several.
        parts: of a Dict, the one that each number belongs to.
        shape: of one observation, where it is known.
        shapes: of a Dict, those of its parts; of a discrete one, how many values it has.
    """

    n_observations: int
    n_actions: int
    continuous: bool
    ranges: Array | None = None
    observed: Array | None = None
    branches: tuple[int, ...] | None = None
    parts: tuple[str, ...] | None = None
    shape: tuple[int, ...] | None = None
    shapes: Mapping[str, tuple[int, ...]] | None = None

    @classmethod
    def of_spaces(cls, observations: gym.Space[Any], actions: gym.Space[Any]) -> Interface:
        """Of an environment."""
        space = flat_space(observations)
        observed = _ends(space)
        known: dict[str, Any] = {
            "n_observations": len(observed),
            "observed": observed,
            "parts": _parts(observations),
            "shape": space.shape,
            "shapes": _shapes(observations),
        }
        if isinstance(actions, gym.spaces.Box):
            ranges = _ends(actions)
            return cls(n_actions=len(ranges), continuous=True, ranges=ranges, **known)
        if isinstance(actions, gym.spaces.Discrete):
            return cls(n_actions=int(actions.n), continuous=False, **known)
        branches = sizes_of(actions)  # no policy of ours acts in anything else
        return cls(n_actions=sum(branches), continuous=False, branches=branches, **known)

    @classmethod
    def of_policy(cls, policy: Policy, states: Array) -> Interface:
        """Of a policy, tried at states (n, n_observations); `ShapeMismatch` if it refuses them."""
        n_actions = policy.quantity.n_actions(policy.outputs(states[:1]).shape[1])
        branches = getattr(policy.quantity, "sizes", None)
        return cls(states[0].size, n_actions, policy.quantity.is_continuous, branches=branches)

    def misfit(
        self,
        declared: DeclaredObservations,
        actions: DeclaredActions,
        anywhere: Mapping[str, tuple[float, float]],
    ) -> Misfit | None:
        """The first thing that a file with these names gets wrong about it.

        Args:
            declared: observations, as the file names them or gives their shape.
            actions: as the file declares them.
            anywhere: (from, to) of the observations that it lets be `any`.
        """
        return (
            self._other_numbers(declared)
            or self._other_actions(actions)
            or self._other_observations(declared.names, anywhere)
        )

    def _other_numbers(self, declared: DeclaredObservations) -> Misfit | None:
        """More of them or fewer, or in another shape."""
        if declared.parts:
            return self._other_shape(declared)
        if self.n_observations == declared.count:
            return None
        return Misfit(
            ("observations",),
            f"names {counted(declared.count, 'observation')} ({declared})",
            f"observes {counted(self.n_observations, 'number')}",
            f"{_IN_ORDER}.",
        )

    def _other_actions(self, actions: DeclaredActions) -> Misfit | None:
        if self.branches is not None or actions.branches is not None:
            return self._other_branches(actions)
        if self.continuous != (actions.ranges is not None):
            return self._other_kind()
        if self.n_actions != len(actions):
            return Misfit(
                ("actions",),
                f"names {counted(len(actions), 'action')} ({', '.join(actions.names)})",
                f"has {self.n_actions}",
                f"{_IN_ORDER}.",
            )
        if self.ranges is None or actions.ranges is None:
            return None
        return self._other_ranges(actions.ranges)

    def _other_shape(self, declared: DeclaredObservations) -> Misfit | None:
        """Other numbers of a Dict, or the same numbers in another order."""
        shapes = self.shapes
        if shapes is not None and list(shapes.items()) != list(declared.parts.items()):
            found = f"observes {DeclaredObservations(parts=shapes)}"
        elif shapes is None and self.shape is not None and self.shape != declared.shape:
            found = f"observes {shape_in_words(self.shape)} numbers"
        else:  # or a policy that does not tell: its network has taken the states
            return None
        said, remedy = f"gives observations as {declared}", "Give the shapes that are observed."
        return Misfit(("observations",), said, found, remedy)

    def _other_branches(self, actions: DeclaredActions) -> Misfit | None:
        """A branch in the place of another, or of none."""
        named = actions.by_branch
        if self.branches is None:
            said = f"names branches, {actions}"
            if self.continuous:
                found = f"has {self.n_actions} continuous actions"
                return Misfit(("actions",), said, found, "Give each a range: {torque: [-2, 2]}.")
            found = f"has a single choice, of {self.n_actions} actions"
            return Misfit(("actions",), said, found, "Name each of them in a list.")
        found = f"chooses in branches of {list(self.branches)} actions"
        if not named:
            remedy = "Name each branch and its actions: {gear: [low, high], brake: [off, on]}."
            return Misfit(("actions",), f"speaks of one choice, {actions}", found, remedy)
        remedy = "Name all branches and their actions, in the order of the environment."
        if len(named) != len(self.branches):
            return Misfit(("actions",), f"names the branches {actions}", found, remedy)
        for (branch, names), size in zip(named.items(), self.branches, strict=True):
            if len(names) != size:
                said = f"names {len(names)} actions of {branch} ({', '.join(names)})"
                return Misfit(("actions", branch), said, found, remedy)
        return None

    def _other_observations(
        self, observations: Sequence[str], anywhere: Mapping[str, tuple[float, float]]
    ) -> Misfit | None:
        return self._other_parts(observations) or self._observed_beyond(observations, anywhere)

    def _other_parts(self, observations: Sequence[str]) -> Misfit | None:
        """Of names such as position.x, the first that is of another part than the number is."""
        for name, part in zip(observations, self.parts or (), strict=False):
            if "." in name and name.partition(".")[0] != part:
                order = ", ".join(dict.fromkeys(self.parts or ()))
                return Misfit(
                    ("observations",),
                    f"names {name} where a number of {part} is",
                    f"observes its parts in the order {order}",
                    "Name them in this order.",
                )
        return None

    def _observed_beyond(
        self, observations: Sequence[str], anywhere: Mapping[str, tuple[float, float]]
    ) -> Misfit | None:
        """What holds for any value in a range need not hold in a wider one."""
        if self.observed is None:
            return None
        for name, (low, high) in anywhere.items():
            lowest, highest = self.observed[observations.index(name)]
            if lowest < low or highest > high:
                return Misfit(
                    ("constraints",),
                    f"takes any {name} to be within {_intervals([(low, high)])}, the range of its "
                    "environment",
                    f"observes it within {_intervals([(lowest, highest)])}",
                    "Give the environment of the file, or a range in the place of `any`.",
                )
        return None

    def _other_kind(self) -> Misfit:
        if not self.continuous:
            found = f"has {self.n_actions} discrete ones"
            remedy = "Name each of them in a list."
            return Misfit(("actions",), "gives ranges of continuous actions", found, remedy)
        with_range = "" if self.ranges is None else f", with its range: {_intervals(self.ranges)}"
        found = f"has {self.n_actions} continuous ones"
        return Misfit(("actions",), "names discrete actions", found, f"{_IN_ORDER}{with_range}.")

    def _other_ranges(self, ranges: Sequence[tuple[float, float]]) -> Misfit | None:
        """Numbers of a file mean something else on another scale."""
        assert self.ranges is not None  # the caller has looked
        if np.allclose(ranges, self.ranges, rtol=1e-6):
            return None
        return Misfit(
            ("actions",),
            f"gives the actions the ranges {_intervals(ranges)}",
            f"acts in {_intervals(self.ranges)}",
            "Write the file in these numbers, or take off what scales the actions (RescaleAction).",
        )


@final
class ObservedRanges:
    """What `any` stands for in a region: all that the environment observes, by the file's names.

    The environment is asked, and only if the file says `any`: it says nothing of these ranges.

    Args:
        observations: the file's, in its order.
        ask: the environment, for its (n_observations, 2).
    """

    def __init__(self, observations: tuple[str, ...], ask: Callable[[], Array]) -> None:
        self._observations = observations
        self._ask = ask
        self._used: dict[str, tuple[float, float]] = {}

    @property
    def used(self) -> Mapping[str, tuple[float, float]]:
        """The ranges that were asked for so far: what the file's constraints rely on."""
        return dict(self._used)

    def of(self, name: str, among: Sequence[str], spot: Spot) -> tuple[float, float]:
        """(from, to) of an observation.

        Args:
            name: of the observation.
            among: all that the key stands for which says `any`.
            spot: of that key, for messages.
        """
        if len(self._ranges) != len(self._observations):
            raise spot.error(
                f"`{ANY}` takes the ranges of the environment, which observes "
                f"{counted(len(self._ranges), 'number')}, but this file names "
                f"{counted(len(self._observations), 'observation')}. Name each of them, in the "
                "order of the environment."
            )
        if not self._is_bounded(name):
            endless = [one for one in among if not self._is_bounded(one)]
            raise spot.error(
                f"`{ANY}` takes the ranges of the environment, but it has none for "
                f"{', '.join(endless)}. Give a range such as {name}: [-2, 2]."
            )
        low, high = self._range(name)
        self._used[name] = low, high
        return low, high

    @cached_property
    def _ranges(self) -> Array:
        return self._ask()

    def _range(self, name: str) -> tuple[float, float]:
        low, high = self._ranges[self._observations.index(name)].tolist()
        return low, high

    def _is_bounded(self, name: str) -> bool:
        """Far beyond what can be computed with, a number is as good as infinity."""
        return bool((np.abs(self._range(name)) <= LARGEST).all())


def make(
    spec: EnvironmentSpec,
    source: Source,
    observations: DeclaredObservations,
    actions: DeclaredActions,
    anywhere: Mapping[str, tuple[float, float]],
    render_mode: str | None = None,
) -> Environment:
    """The environment, after checking that the file fits it.

    Its observations are flat where the file names their numbers: these are in a row.
    """
    env = _make(spec, source.spot(("environment",)), render_mode)
    try:
        _refuse_other_kinds(env, spec, source.spot(("environment",)))
        space, action_space = env.observation_space, env.action_space
        interface = Interface.of_spaces(space, action_space)
        misfit = interface.misfit(observations, actions, anywhere)
        if misfit is not None:
            raise source.spot(misfit.path).error(
                f"this file {misfit.said}, but {spec.id} {misfit.found}. {misfit.remedy}"
            )
    except Exception:
        env.close()
        raise
    as_declared = isinstance(space, gym.spaces.Box) and space.shape == observations.shape
    return env if as_declared else gym.wrappers.FlattenObservation(env)


def observed_box(spec: EnvironmentSpec, source: Source) -> Array:
    """What the environment observes: (n_observations, 2), low and high of each number."""
    spot = source.spot(("environment",))
    env = _make(spec, spot, None)
    try:
        _refuse_other_kinds(env, spec, spot)
        return _ends(flat_space(env.observation_space))
    finally:
        env.close()


def _make(spec: EnvironmentSpec, spot: Spot, render_mode: str | None) -> Environment:
    if not _is_registered(spec.id):
        close = difflib.get_close_matches(spec.id, list(gym.registry), n=3)
        meant = f" Close to it: {', '.join(close)}." if close else ""
        raise spot.error(
            f"Gymnasium knows no environment {spec.id!r}.{meant} If a module of its own registers "
            "it, import that module first (on the command line: --import)."
        )
    options: dict[str, Any] = {"max_episode_steps": spec.max_episode_steps, **spec.options}
    if render_mode is not None:  # not every environment knows the word
        options["render_mode"] = render_mode
    try:
        return gym.make(spec.id, **options)
    except (gym.error.Error, TypeError, ValueError, AssertionError, ImportError) as error:
        raise spot.error(f"Gymnasium cannot make {spec.id!r}. Its own words: {error}") from error


def states_outside(env: Environment, states: Array) -> int:
    """How many of the states (n, n_observations) the environment says it never observes."""
    space = env.observation_space
    assert isinstance(space, gym.spaces.Box)  # others are refused
    flat = states.reshape(len(states), -1)
    # Bounds are float32: 0.1 is a little less there; and polytopes are a hair larger than said.
    slack = 1e-6 * np.maximum(np.abs(flat), np.ptp(flat, axis=0))
    low, high = space.low.reshape(-1), space.high.reshape(-1)
    inside = ((flat >= low - slack) & (flat <= high + slack)).all(axis=1)
    return int((~inside).sum())


def reward_threshold(environment: str) -> float | None:
    """What Gymnasium calls solved, if it knows the environment and has an opinion."""
    spec = gym.registry.get(environment)
    return None if spec is None else spec.reward_threshold


def _is_registered(environment: str) -> bool:
    try:
        gym.spec(environment)
    except gym.error.Error:
        return False
    return True


def _refuse_other_kinds(env: Environment, spec: EnvironmentSpec, spot: Spot) -> None:
    """Spaces that no file can speak of."""
    actions = env.action_space
    try:
        flat_space(env.observation_space)
    except InvalidPolicy as error:
        raise spot.error(str(error)) from None
    if not isinstance(actions, _KNOWN_ACTIONS) or len(actions.shape or ()) > 1:
        raise spot.error(
            f"{spec.id} acts in {actions}, but constraints need Discrete actions, a list of "
            "numbers (a Box of one axis), or branches (MultiDiscrete or MultiBinary of one axis)."
        )


def _ends(space: gym.spaces.Box) -> Array:
    """(n, 2), low and high of each number, in C order."""
    ends: Array = np.stack([space.low.ravel(), space.high.ravel()], axis=1).astype(np.float64)
    return ends


def _shapes(space: gym.Space[Any]) -> dict[str, tuple[int, ...]] | None:
    """Of a Dict, those of its parts."""
    if not isinstance(space, gym.spaces.Dict):
        return None
    return {
        name: (isinstance(part, gym.spaces.Box) and part.shape) or (gym.spaces.flatdim(part),)
        for name, part in space.spaces.items()
    }


def _parts(space: gym.Space[Any]) -> tuple[str, ...] | None:
    """Of a Dict, the name of the part that each number belongs to."""
    if not isinstance(space, gym.spaces.Dict):
        return None
    sizes = {name: gym.spaces.flatdim(part) for name, part in space.spaces.items()}
    return tuple(name for name, size in sizes.items() for _ in range(size))


def _intervals(ranges: Iterable[Iterable[float]]) -> str:
    return ", ".join(f"[{low:g}, {high:g}]" for low, high in ranges)
