"""What of a network decides how a model acts, as it was when it was looked at."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter, is_
from typing import final

import torch
from torch import Tensor, nn

_version = attrgetter("_version")


@final
class ActingNetwork:
    """A copy of all that decides how a model acts, to tell whether it still does.

    Args:
        network: of the model.
        without: parts that have no say in it.
    """

    def __init__(self, network: nn.Module, without: Collection[nn.Module] = ()) -> None:
        self._network, self._without = network, without
        self._copy(self._present())

    def look_again(self) -> None:
        """As it is now it acts from here; asked before every rollout."""
        now = self._present()
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
        now = self._present()
        same = self.seems_unchanged() and _are(now, self._tensors)
        return same and all(map(torch.equal, self._copies, now))

    def _present(self) -> list[Tensor]:
        return [
            one
            for part in parts_of(self._network, self._without)
            for own in (part._parameters, part._buffers)
            for one in own.values()
            if one is not None
        ]


def parts_of(network: nn.Module, without: Collection[nn.Module] = ()) -> list[nn.Module]:
    """The network and all inside it but for some parts, those used twice as often.

    Asked before every rollout, by dictionaries: torch's own way puts a name to each of them.
    """
    parts = [network]
    for part in parts:  # which grows meanwhile
        parts += [one for one in part._modules.values() if one is not None and one not in without]
    return parts


def _are(some: list[Tensor], others: list[Tensor]) -> bool:
    """Whether these are the very same."""
    return len(some) == len(others) and all(map(is_, some, others))


def _shapes(tensors: list[Tensor]) -> list[torch.Size]:
    return list(map(Tensor.size, tensors))
