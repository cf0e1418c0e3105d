"""The YAML that constraint files are written in: YAML 1.2's plain values, nothing else.

PyYAML follows YAML 1.1, where `1e-4` is text, `no` is a boolean, `010` is eight and `2024-01-01` a
date. An action may be called `no`, and a step size is often written `1e-4`.
"""

from __future__ import annotations

import re
from typing import Any, final

import yaml

_CORE = "tag:yaml.org,2002:"
NULL, BOOL, INT, FLOAT, STR, SEQ, MAP, MERGE = (
    _CORE + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map", "merge")
)
SCALARS = {NULL, BOOL, INT, FLOAT, STR, MERGE}
# Deeper than any constraint file, and far from Python's recursion limit.
MAX_DEPTH = 40
# Ints of more digits become floats: int() refuses thousands of digits, float() only rounds.
_INT_DIGITS = 19


@final
class Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the plain values of YAML 1.2, and a limit on nesting."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """One node, unless it lies too deep."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem="nested too deeply", problem_mark=self.start_of_next()
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def start_of_next(self) -> yaml.Mark:
        """Where the next node or document begins."""
        mark: yaml.Mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        return mark


# A table of its own: PyYAML's is shared by everyone who loads YAML in this process.
Loader.yaml_implicit_resolvers = {}


def _resolve(tag: str, pattern: str, first: str) -> None:
    Loader.add_implicit_resolver(tag, re.compile(rf"(?:{pattern})\Z", re.ASCII), list(first))


_resolve(BOOL, "true|True|TRUE|false|False|FALSE", "tTfF")
_resolve(INT, r"[-+]?[0-9]+", "-+0123456789")
_resolve(
    FLOAT,
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    "-+.0123456789",
)
_resolve(MERGE, "<<", "<")
Loader.add_implicit_resolver(NULL, re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])


def construct_scalar(node: yaml.ScalarNode) -> str | int | float | bool | None:
    """The value of a scalar; ValueError if its explicit tag does not fit its text."""
    text = str(node.value)
    if node.tag == NULL:
        return None
    if node.tag == BOOL:
        return _boolean(text)
    return _number(text, node.tag) if node.tag in (INT, FLOAT) else text


def _number(text: str, tag: str) -> int | float:
    try:
        if tag == INT and len(text) <= _INT_DIGITS:
            return int(text)
        return float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"
