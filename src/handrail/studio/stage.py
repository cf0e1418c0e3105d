"""The policy that a text speaks of, before and as it is held to the text; its map over a plane."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import torch

from handrail._types import Array
from handrail.policies import Policy
from handrail.report import Plane
from handrail.rulebook import Rulebook
from handrail.runs import make_policy, open_policy
from handrail.studio.messages import Map, View
from handrail.tangent import restore

Key: TypeAlias = tuple[object, ...]


@final
@dataclass(eq=False)
class Stage:
    """A first policy, and where it acts.

    Attributes:
        key: of what it was made from.
        first: stays as it is.
        policy: the same, to be held.
        space: of observations.
        trained: whether the first one has learned: it is changed as little as possible elsewhere.
    """

    key: Key
    first: Policy
    policy: Policy
    space: Any
    trained: bool
    _before: dict[tuple[Plane, int], Map] = field(default_factory=dict)

    @classmethod
    def of(cls, book: Rulebook, source: Path | None) -> Stage:
        """The policy of a run or a file, or a fresh one as the text describes it."""
        if source is not None:
            opened = open_policy(source, "The studio shows one policy", book)
            book.check_policy(opened.policy)
            first, space = opened.policy, opened.spaces[0]
        else:
            env = book.make_environment()
            try:
                first, space = make_policy(book, env), env.observation_space
            finally:
                env.close()
        return cls(key_of(book), first, copy_of(first), space, trained=source is not None)

    def map_before(self, plane: Plane, count: int) -> Map:
        """Of the first policy; computed once for each plane, of which the last is kept."""
        key = plane, count
        if key not in self._before:
            self._before = {key: map_over(plane, self.first, count)}
        return self._before[key]


def key_of(book: Rulebook) -> Key:
    """Whatever of a text its first policy depends on."""
    environment, settings = book.environment, book.settings
    return (
        environment.id,
        environment.max_episode_steps,
        repr(environment.options),
        book.observations,
        book.actions,
        book.ranges,
        book.branches,
        settings.network.model_dump_json(),
        settings.seed,
    )


def copy_of(policy: Policy) -> Policy:
    """With weights of its own."""
    return policy.with_module(deepcopy(policy.module))


def weights_of(policy: Policy) -> list[Array]:
    """Of every layer, in float64."""
    return [one.detach().double().numpy(force=True).copy() for one in policy.parameters]


def fits(policy: Policy, weights: Sequence[Array]) -> bool:
    """Whether they are of a network of this form."""
    return [tuple(p.shape) for p in policy.parameters] == [one.shape for one in weights]


def put_weights(policy: Policy, weights: Sequence[Array]) -> None:
    """Into the policy, in place."""
    restore(policy, [torch.as_tensor(one) for one in weights])


def map_over(plane: Plane, policy: Policy, count: int) -> Map:
    """What a policy puts out over a plane, `count` states along each axis."""
    _, _, states = plane.states(count)
    outputs = policy.outputs(states)
    values = np.ascontiguousarray(outputs.T, dtype="<f8")
    return Map(
        view=view_of(plane),
        columns=count,
        rows=count,
        outputs=outputs.shape[1],
        values=base64.b64encode(values.tobytes()).decode(),
    )


def view_of(plane: Plane) -> View:
    """A plane as a message."""
    return View(
        across=plane.horizontal,
        up=plane.vertical,
        across_range=plane.horizontal_range,
        up_range=plane.vertical_range,
        at=list(plane.at),
    )


def plane_of(view: View) -> Plane:
    """A message as a plane."""
    return Plane(tuple(view.at), view.across, view.up, view.across_range, view.up_range)
