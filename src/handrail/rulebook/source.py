"""The text of a constraint file as plain data, and the line of every part of it.

Of YAML there are the plain values of version 1.2, nothing else. PyYAML follows YAML 1.1, where
`1e-4` is text, `no` is a boolean, `010` is eight and `2024-01-01` a date; but an action may be
called `no`, and a step size is often written `1e-4`. Nothing in a file is executed, and neither
depth, size nor aliases can exhaust anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias, final

import yaml

from handrail.errors import InvalidRulebook

_CORE = "tag:yaml.org,2002:"
NULL, BOOL, INT, FLOAT, STR, SEQ, MAP, MERGE = (
    _CORE + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map", "merge")
)
SCALARS = {NULL, BOOL, INT, FLOAT, STR, MERGE}

# Deeper than any constraint file, and far from Python's recursion limit.
MAX_DEPTH = 40
MAX_BYTES = 1_000_000
MAX_NODES = 50_000

# Ints of more digits become floats: int() refuses thousands of digits, float() only rounds.
_INT_DIGITS = 19

_HINTS = {
    "'\\t'": " Indent with spaces, not with tabs.",
    "mapping values are not allowed": " Put text that contains a colon in quotes.",
    "chomping or indentation": " Put text that begins with > or | in quotes.",
}

KeyPath: TypeAlias = tuple[str | int, ...]


@final
class TooManyValues(Exception):
    """More values than a constraint file has; found while reading, which is what takes long."""

    def __init__(self, line: int) -> None:
        super().__init__(f"more than {MAX_NODES} values from line {line} on")
        self.line = line


@final
class Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the plain values of YAML 1.2; depth and size have a limit."""

    _depth = 0
    _nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """One node, unless it lies too deep or comes after too many."""
        self._depth += 1
        self._nodes += 1
        if self._depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem="nested too deeply", problem_mark=self.start_of_next()
            )
        if self._nodes > MAX_NODES:
            raise TooManyValues(self.start_of_next().line + 1)
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


@final
@dataclass(frozen=True)
class Spot:
    """A place in a file, for messages."""

    file: str
    line: int
    key: str = ""

    def error(self, message: str) -> InvalidRulebook:
        """'cartpole.yaml, line 7, constraints[0].require: …'."""
        key = f", {self.key}" if self.key else ""
        return InvalidRulebook(f"{self.file}, line {self.line}{key}: {message}", self.line)

    def without_key(self) -> Spot:
        """The line alone, for messages that name the culprit themselves."""
        return Spot(self.file, self.line)


@final
@dataclass(frozen=True)
class TextSpan:
    """Where a value is written: the characters from `start` up to `end`.

    Attributes:
        start: of its first character.
        end: behind its last one; of a collection in blocks, wherever the next thing begins.
        flow: whether it is written in brackets or braces, or is a single value.
    """

    start: int
    end: int
    flow: bool


@final
@dataclass(frozen=True)
class Source:
    """A constraint file as plain data.

    Attributes:
        file: what messages call it.
        text: the file, verbatim.
        data: mappings, lists, texts, numbers, booleans and None.
        lines: the line of every key and every item of a list, by its path.
        blocks: the first line of the content of every literal block of text (`|`), by its path.
        spans: where every value is written, by its path; aliases are written where their anchor is.
    """

    file: str
    text: str
    data: dict[str, Any]
    lines: dict[KeyPath, int]
    blocks: dict[KeyPath, int]
    spans: dict[KeyPath, TextSpan]

    def spot(self, path: KeyPath) -> Spot:
        """Where a key or an item is; for what is missing, where the nearest thing around it is."""
        nearest = path
        while nearest not in self.lines:
            nearest = nearest[:-1]
        return Spot(self.file, self.lines[nearest], in_words(path))

    def spot_in_block(self, path: KeyPath, index: int) -> Spot:
        """Where a line of a block of text is."""
        whole = self.spot(path)
        # Only literal blocks keep their lines; of quoted text all we know is where it begins.
        line = self.blocks[path] + index if path in self.blocks else whole.line
        return Spot(self.file, line, whole.key)


def in_words(path: KeyPath) -> str:
    """'constraints[0].where.phi'."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).removeprefix(".")


def read(text: str, file: str) -> Source:
    """The text as data; `InvalidRulebook` if it is not the plain YAML of one constraint file."""
    refuse_large(len(text), file)
    root = _compose(text, file)
    if not isinstance(root, yaml.MappingNode):
        raise Spot(file, _line(root)).error(
            "expected keys such as environment:, actions: and constraints:, one per line, but this "
            f"file holds a {'list' if isinstance(root, yaml.SequenceNode) else 'single value'}."
        )
    walk = _Walk(file)
    data = walk.mapping(root, ())
    return Source(file, text, data, walk.lines, walk.blocks, walk.spans)


def read_value(text: str) -> Any:
    """A value as constraint files write it: 1e-4 is a number, no is a text, nothing is None.

    Raises:
        InvalidRulebook: if it is none.
    """
    documents = list(islice(_documents(text, text), 2))
    if len(documents) > 1:
        raise Spot(text, documents[1][0]).error("expected one value, but a second one begins here.")
    return _Walk(text).value(documents[0][1], ()) if documents else None


def refuse_large(size: int, file: str) -> None:
    """A file of a megabyte is no constraint file."""
    if size > MAX_BYTES:
        raise Spot(file, 1).error(
            f"the file has {size:,} characters; a constraint file has at most {MAX_BYTES:,}. "
            "Describe many states with a grid: {from: -2, to: 2, count: 100}."
        )


def _compose(text: str, file: str) -> yaml.Node:
    documents = list(islice(_documents(text, file), 2))
    if not documents:
        raise Spot(file, 1).error(
            "the file is empty. It needs at least environment:, observations:, actions: and "
            "constraints:."
        )
    if len(documents) > 1:
        raise Spot(file, documents[1][0]).error(
            "a second document begins here (---). Write one document per file."
        )
    return documents[0][1]


def _documents(text: str, file: str) -> Iterator[tuple[int, yaml.Node]]:
    """The line of each document, and its root."""
    try:
        loader = Loader(text)
        while loader.check_node():
            line = loader.start_of_next().line + 1
            root = loader.get_node()
            assert root is not None  # there is one: check_node said so
            yield line, root
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Spot(file, line).error(
            f"the character {chr(error.character)!r} is not allowed in YAML. Remove it."
        ) from None
    except TooManyValues as error:
        raise _too_many_values(Spot(file, error.line)) from None
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, file) from None
    except (ValueError, OverflowError):  # PyYAML, on escapes such as "\UFFFFFFFF"
        raise Spot(file, loader.get_mark().line + 1).error(
            "this is not YAML: an escape (\\U…) in a quoted text stands for no character."
        ) from None


def _not_yaml(error: yaml.MarkedYAMLError, file: str) -> InvalidRulebook:
    mark = error.problem_mark or error.context_mark
    problem = str(error.problem or error.context)
    hint = next((hint for sign, hint in _HINTS.items() if sign in problem), "")
    return Spot(file, mark.line + 1 if mark else 1).error(f"this is not YAML: {problem}.{hint}")


def _too_many_values(spot: Spot) -> InvalidRulebook:
    return spot.error(
        f"from here on the file has more than {MAX_NODES:,} values, aliases (*) written out. "
        "Describe many states with a grid, {from: -2, to: 2, count: 100}, or in a table: |."
    )


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _span(node: yaml.Node) -> TextSpan:
    in_blocks = isinstance(node, yaml.CollectionNode) and not node.flow_style
    return TextSpan(int(node.start_mark.index), int(node.end_mark.index), not in_blocks)


@final
@dataclass
class _Walk:
    """From nodes to data. Aliases are written out, so a limit holds for what they grow to."""

    file: str
    lines: dict[KeyPath, int] = field(default_factory=dict)
    blocks: dict[KeyPath, int] = field(default_factory=dict)
    spans: dict[KeyPath, TextSpan] = field(default_factory=dict)
    _open: list[int] = field(default_factory=list)
    _visited: int = 0

    def mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        self.lines.setdefault(path, _line(node))
        result: dict[str, Any] = {}
        for key, (key_node, value) in self._entries(node).items():
            self.lines[*path, key] = _line(key_node)
            result[key] = self.value(value, (*path, key))
        return result

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        self._enter(node)
        self.spans[path] = _span(node)
        try:
            if isinstance(node, yaml.MappingNode) and node.tag == MAP:
                return self.mapping(node, path)
            if isinstance(node, yaml.SequenceNode) and node.tag == SEQ:
                return self._sequence(node, path)
            if isinstance(node, yaml.ScalarNode) and node.tag in SCALARS:
                return self._scalar(node, path)
        finally:
            self._open.pop()
        raise self._spot(node).error(
            f"the tag {str(node.tag).replace('tag:yaml.org,2002:', '!!')!r} is not allowed here. "
            "A constraint file holds plain text, numbers, lists and mappings: remove the tag."
        )

    def _sequence(self, node: yaml.SequenceNode, path: KeyPath) -> list[Any]:
        result = []
        for index, item in enumerate(node.value):
            self.lines[*path, index] = _line(item)
            result.append(self.value(item, (*path, index)))
        return result

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        if node.style == "|":
            self.blocks[path] = _line(node) + 1
        try:
            return construct_scalar(node)
        except ValueError as error:
            raise self._spot(node).error(f"the value does not fit its tag: {error}.") from None

    def _entries(self, node: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Keys with their nodes: a key of the mapping's own counts more than a merged one."""
        own: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, value in node.value:
            if key_node.tag == MERGE:
                for base in self._bases(value):
                    merged = self._merged(base) | merged
                continue
            key = self._key(key_node)
            if key in own:
                raise self._spot(key_node).error(
                    f"the key {key!r} is already on line {_line(own[key][0])}. Remove one of them."
                )
            own[key] = (key_node, value)
        return merged | own

    def _merged(self, base: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        self._enter(base)
        entries = self._entries(base)
        self._open.pop()
        self._visited += len(entries)
        return entries

    def _bases(self, value: yaml.Node) -> Iterator[yaml.MappingNode]:
        bases = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for base in bases:
            if not isinstance(base, yaml.MappingNode):
                raise self._spot(base).error("`<<` merges mappings: write <<: *name of a mapping.")
            yield base

    def _key(self, node: yaml.Node) -> str:
        key = self.value(node, ()) if isinstance(node, yaml.ScalarNode) else None
        if not isinstance(key, str):
            shown = f"{node.value!r} is" if isinstance(node, yaml.ScalarNode) else "this is"
            raise self._spot(node).error(f"keys are names, but {shown} not. Put it in quotes.")
        return key

    def _enter(self, node: yaml.Node) -> None:
        if id(node) in self._open:
            raise self._spot(node).error("this refers to itself through an alias (*).")
        if len(self._open) >= MAX_DEPTH:
            raise self._spot(node).error("nested too deeply, by aliases (*) of aliases.")
        self._open.append(id(node))
        self._visited += 1
        if self._visited > MAX_NODES:
            raise _too_many_values(self._spot(node))

    def _spot(self, node: yaml.Node) -> Spot:
        return Spot(self.file, _line(node))
