"""What of a network decides how a model acts, as it was when it was looked at."""

from __future__ import annotations

from itertools import chain
from typing import final

import torch
from torch import Tensor, nn


@final
class ActingNetwork:
    """A copy of all that decides how a model acts, to tell whether it still does.

    Args:
        part: of the model's network.
    """

    def __init__(self, part: nn.Module) -> None:
        self._part = part
        self._tensors = _tensors(part)
        self._copies = [one.detach().clone() for one in self._tensors]
        self._versions = list(map(_version, self._tensors))

    def seems_unchanged(self) -> bool:
        """Whether nothing was written into it that torch counts: asked at every step, so cheap.

        Torch does not count what is written through `.data`; `is_unchanged` finds that, too.
        """
        return list(map(_version, self._tensors)) == self._versions

    def is_unchanged(self) -> bool:
        """Whether it is the same, number by number."""
        now = _tensors(self._part)
        return len(now) == len(self._copies) and all(map(torch.equal, self._copies, now))


def _tensors(part: nn.Module) -> list[Tensor]:
    return list(chain(part.parameters(), part.buffers()))


def _version(tensor: Tensor) -> int:
    """Raised by whatever writes into it; not counted of tensors made for inference."""
    return 0 if tensor.is_inference() else tensor._version
