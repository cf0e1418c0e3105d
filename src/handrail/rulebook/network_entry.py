"""What a file says of the network, in the names of its observations and actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from handrail.errors import InvalidConstraint
from handrail.formulas import Affine, parse_formula
from handrail.rulebook.findings import unknown
from handrail.rulebook.requirement import DeclaredActions
from handrail.rulebook.source import KeyPath
from handrail.settings import DEFAULT_STD, Network

_NETWORK: KeyPath = ("settings", "network")

# Of continuous actions only: what each is.
_CONTINUOUS = {
    "std": "it is how widely continuous actions vary",
    "std_range": "it is from where to where that is learned",
    "std_varies": "it lets the noise of continuous actions depend on the state",
    "bounded": "it keeps the means of continuous actions within their ranges",
    "residual": "it is a controller of continuous actions",
}


class NetworkFinding(NamedTuple):
    """Something that cannot be meant: where, and why.

    Attributes:
        path: of a setting, or of a name in it.
        of_name: whether it is of a name.
        message: for people.
    """

    path: KeyPath
    of_name: bool
    message: str


def network_findings(
    network: Network, observations: Sequence[str], actions: DeclaredActions
) -> Iterator[NetworkFinding]:
    """One after the other; none if all is well."""
    for key, names in (("scale", network.scale), ("centre", network.centre)):
        for name in () if isinstance(names, str) else names:
            if name not in observations:
                message = unknown("observation", name, observations)
                yield NetworkFinding((*_NETWORK, key, name), True, message)
    if not actions.quantity.is_continuous:
        for key in _idle(network):
            message = f"{_CONTINUOUS[key]}, but these are discrete. Leave it out."
            yield NetworkFinding((*_NETWORK, key), False, message)
        return
    for name, text in network.residual.items():
        message = _controller_oddity(name, text, observations, actions.names)
        if message:
            yield NetworkFinding((*_NETWORK, "residual", name), True, message)


def _idle(network: Network) -> list[str]:
    """A run keeps every setting, defaults as well, so that a default alone says nothing."""
    said = {
        "std": network.std != DEFAULT_STD,
        "std_range": network.std_range is not None,
        "std_varies": network.std_varies,
        "bounded": network.bounded is not None,
        "residual": bool(network.residual),
    }
    return [key for key, is_said in said.items() if is_said]


def _controller_oddity(
    name: str, text: str, observations: Sequence[str], actions: Sequence[str]
) -> str:
    if name not in actions:
        return unknown("action", name, actions)
    try:
        parse_formula(text, observations, "observation").affine()
    except InvalidConstraint as error:
        return f"{error} A controller is linear in the observations: -12*phi - 3*phi_dot."
    return ""


def mlp_arguments(
    network: Network, observations: Sequence[str], actions: DeclaredActions
) -> dict[str, Any]:
    """What `mlp` of a policy is told of it, besides its size: as far as the file says."""
    told: dict[str, Any] = {}
    if network.scale:
        told["scale"] = network.scale if network.scale == "auto" else sizes(network, observations)
    if network.centre:
        told["centre"] = tuple(network.centre.get(name, 0.0) for name in observations)
    if network.bounded is not None:
        told["bounded"] = network.bounded
    if network.residual:
        nothing = Affine(np.zeros(len(observations)))
        told["residual"] = [
            parse_formula(network.residual[name], observations).affine()
            if name in network.residual
            else nothing
            for name in actions.names
        ]
    if actions.quantity.is_continuous:
        told["std"] = network.std
    if network.std_varies and network.std_range is not None:
        told["std_range"] = tuple(network.std_range)
    return told


def sizes(network: Network, observations: Sequence[str]) -> tuple[float, ...]:
    """The typical size of each observation, in their order; 1 where the file says nothing."""
    known = {} if network.scale == "auto" else network.scale
    return tuple(known.get(name, 1.0) for name in observations)
