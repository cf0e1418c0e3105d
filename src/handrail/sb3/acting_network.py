"""What of a network decides how a model acts, as it was when it was looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter, is_
from typing import Any, final

import torch
from torch import Tensor, nn

_version = attrgetter("_version")

# Of a part: its own dictionaries, by C alone. Torch's public ways put a name to all in them.
_modules, _parameters, _buffers = map(attrgetter, ("_modules", "_parameters", "_buffers"))
_training, _forward = attrgetter("training"), attrgetter("__class__.forward")
_counted_in_make_up = tuple(map(attrgetter, ("__dict__", "_forward_hooks", "_forward_pre_hooks")))


@final
class ActingParts:
    """The network and all inside it that has a say in how a model acts.

    Asked several times a rollout, which may be ten milliseconds long: they are walked again only if
    something else than before is inside one of them.

    Args:
        network: of the model.
        without: parts that have no say in it.
    """

    def __init__(self, network: nn.Module, without: Collection[nn.Module] = ()) -> None:
        self._network, self._without = network, without
        self._walk()

    def present(self) -> Sequence[nn.Module]:
        """All of them now; those used twice as often."""
        if not _are([*_inside(self._parts)], self._inside):
            self._walk()
        return self._parts

    def _walk(self) -> None:
        parts = [self._network]
        for part in parts:  # which grows meanwhile
            own = part._modules.values()
            parts += [one for one in own if one is not None and one not in self._without]
        self._parts, self._inside = parts, [*_inside(parts)]

    def tensors(self) -> list[Tensor]:
        """Their parameters and buffers now."""
        parts = self.present()
        every = chain(_values(map(_parameters, parts)), _values(map(_buffers, parts)))
        return [one for one in every if one is not None]

    def make_up(self) -> list[object]:
        """All that makes them but their numbers: their methods, hooks and attributes."""
        parts = self.present()
        counts = (map(len, map(of, parts)) for of in _counted_in_make_up)
        return [*parts, *map(_forward, parts), *chain.from_iterable(counts)]

    def any_in_training(self) -> bool:
        """Whether any of them is in training mode, in which it may act in another way."""
        return any(map(_training, self.present()))


def _inside(parts: Iterable[nn.Module]) -> Iterator[nn.Module | None]:
    return _values(map(_modules, parts))


def _values(dictionaries: Iterable[dict[str, Any]]) -> Iterator[Any]:
    return chain.from_iterable(map(dict.values, dictionaries))


@final
class ActingNetwork:
    """A copy of all that decides how a model acts, to tell whether it still does.

    Args:
        parts: of the model's network.
    """

    def __init__(self, parts: ActingParts) -> None:
        self._parts = parts
        self._copy(parts.tensors())

    def look_again(self) -> None:
        """As it is now it acts from here; asked before every rollout."""
        now = self._parts.tensors()
        if not _are(now, self._tensors) or _shapes(now) != _shapes(self._copies):
            self._copy(now)
            return
        with torch.no_grad():
            torch._foreach_copy_(self._copies, now)  # all of them in one call
        self._versions = list(map(_version, self._counted))

    def _copy(self, tensors: list[Tensor]) -> None:
        self._tensors = tensors
        with torch.no_grad():
            self._copies = [one.clone() for one in tensors]
        # Not counted of tensors made for inference.
        self._counted = [one for one in tensors if not one.is_inference()]
        self._versions = list(map(_version, self._counted))

    def seems_unchanged(self) -> bool:
        """Whether nothing was written into it that torch counts: asked between steps, so cheap.

        Torch does not count what is written through `.data`; `is_unchanged` finds that, too.
        """
        return list(map(_version, self._counted)) == self._versions

    def is_unchanged(self) -> bool:
        """Whether these are the same tensors, torch counts no write, and all numbers are equal."""
        now = self._parts.tensors()
        same = self.seems_unchanged() and _are(now, self._tensors)
        return same and all(map(torch.equal, self._copies, now))


def _are(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether these are the very same."""
    return len(some) == len(others) and all(map(is_, some, others))


def _shapes(tensors: list[Tensor]) -> list[torch.Size]:
    return list(map(Tensor.size, tensors))
