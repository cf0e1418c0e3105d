"""What the models of a file share: strictness, and alternatives that are told apart by type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ConfigDict

STRICT = ConfigDict(
    extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
)
# Tags of the alternatives: no name in a file can be mistaken for them in pydantic's paths.
GRID, TEXT, NUMBER, LIST, MAPPING = "<grid>", "<text>", "<number>", "<list>", "<mapping>"


def tag_by_type(**tags: type | tuple[type, ...]) -> Callable[[Any], str | None]:
    """What tells alternatives apart: the first tag whose type fits."""

    def tag_of(value: Any) -> str | None:
        fitting = (f"<{tag}>" for tag, kind in tags.items() if isinstance(value, kind))
        return next(fitting, None)

    return tag_of
