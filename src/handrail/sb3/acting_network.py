"""What of a network decides how a model acts, as it was when it was looked at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, is_
from typing import Any, final

import torch
from torch import Tensor, nn

_version, _training = attrgetter("_version"), attrgetter("training")


@final
class ActingParts:
    """The network and all inside it that has a say in how a model acts, as last looked at.

    Looked at twice a rollout, which may be ten milliseconds long and leaves nothing of them in the
    caches: so only their own dictionaries are looked into, which torch never replaces, and they are
    walked anew only if something else than before is inside one of them.

    Args:
        network: of the model.
        without: parts that have no say in it.

    Attributes:
        tensors: their parameters and buffers.
    """

    tensors: list[Tensor]

    def __init__(self, network: nn.Module, without: Collection[nn.Module] = ()) -> None:
        self._network, self._without = network, without
        self._walk()

    def look(self) -> None:
        """At what they are now; those used twice as often."""
        if not _are(_values(self._contents), self._inside):
            self._walk()

    def _walk(self) -> None:
        parts = [self._network]
        for part in parts:  # which grows meanwhile
            own = part._modules.values()
            parts += [one for one in own if one is not None and one not in self._without]
        self._parts, self._kinds = parts, {part.__class__ for part in parts}
        tensors = [own for part in parts for own in (part._parameters, part._buffers)]
        self._contents = [*(part._modules for part in parts), *tensors]
        self._inside = _values(self._contents)
        self._counted = [
            own
            for part in parts
            for own in (part.__dict__, part._forward_hooks, part._forward_pre_hooks)
        ]
        self.tensors = [one for one in _values(tensors) if one is not None]
        self._layouts: list[object] = []

    def make_up(self) -> list[object]:
        """All that makes them but their numbers: their methods, hooks and attributes."""
        forwards = [one.forward for one in self._kinds]
        return [*self._parts, *map(type, self._parts), *forwards, *map(len, self._counted)]

    def any_in_training(self) -> bool:
        """Whether any of them is in training mode, in which it may act in another way."""
        return any(map(_training, self._parts))

    def numbers(self) -> list[object]:
        """All of them now, tensor by tensor, and how they lie there."""
        layouts = _layouts(self.tensors)
        if layouts != self._layouts:
            self._layouts, self._readers = layouts, list(map(_reader, self.tensors))
        return [layouts[len(self.tensors) :], [read() for read in self._readers]]


def _values(dictionaries: Sequence[dict[str, Any]]) -> list[Any]:
    return [*chain.from_iterable(map(dict.values, dictionaries))]


@final
class ActingNetwork:
    """A copy of all that decides how a model acts, to tell whether it still does.

    Args:
        parts: of the model's network.
    """

    def __init__(self, parts: ActingParts) -> None:
        self._parts = parts
        self._tensors: list[Tensor] = []
        self._counted: list[Tensor] = []
        self.look_again()

    def look_again(self) -> None:
        """As its parts were last looked at it acts from here; asked before every rollout."""
        now = self._parts.tensors
        if now is not self._tensors:
            self._tensors = now
            # Not counted of tensors made for inference.
            self._counted = [one for one in now if not one.is_inference()]
        self._versions = list(map(_version, self._counted))
        self._numbers = self._parts.numbers()

    def seems_unchanged(self) -> bool:
        """Whether nothing was written into it that torch counts: asked between steps, so cheap.

        Torch does not count what is written through `.data`; `is_unchanged` finds that, too.
        """
        return list(map(_version, self._counted)) == self._versions

    def is_unchanged(self) -> bool:
        """Whether these are the same tensors, torch counts no write, and all numbers are equal."""
        self._parts.look()
        same = self.seems_unchanged() and _are(self._parts.tensors, self._tensors)
        return same and self._parts.numbers() == self._numbers


def _are(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether these are the very same."""
    return len(some) == len(others) and all(map(is_, some, others))


def _layouts(tensors: list[Tensor]) -> list[object]:
    """Where the numbers of each are, and in which order."""
    ways = Tensor.data_ptr, Tensor.size, Tensor.stride
    return [*chain.from_iterable(map(way, tensors) for way in ways)]


def _reader(tensor: Tensor) -> Callable[[], bytes]:
    """Of its numbers as they are then: on the memory of the CPU without torch."""
    flat = tensor.detach().reshape(-1)
    if flat.device.type == "cpu" and flat.data_ptr() == tensor.data_ptr():  # no copy of it
        return flat.view(torch.uint8).numpy().tobytes
    return partial(_read, tensor)


def _read(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()
