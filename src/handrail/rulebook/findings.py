"""What is wrong with a file, in its own words: its lines, keys and names; all of it in one error.

Names that are close to a known one are guessed, what pydantic finds becomes a sentence, and what
the library calls by index or class is told by name and key.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from handrail.errors import InvalidRulebook, Phrase, Words
from handrail.rulebook.region_schema import GRID, SHAPES, STATES, BallEntry, PolytopeEntry
from handrail.rulebook.schema import (
    BarrierEntry,
    ConstraintEntry,
    EnvironmentEntry,
    File,
    Grid,
    PictureEntry,
    StatesReference,
    SymmetryEntry,
)
from handrail.rulebook.source import KeyPath, Source
from handrail.settings import (
    Everywhere,
    Fading,
    MaximumDeviation,
    MaximumReturn,
    Network,
    RunSettings,
    expectation,
)

# What the library calls things, and what a file calls them.
_TERMS = {
    Phrase.CURVE: "the curve",
    Phrase.POLYTOPE: "the polytope",
    Phrase.POINTS: "`where`",
    Phrase.T_MIN: "from",
    Phrase.T_MAX: "to",
    Phrase.HALF_SPACES_MEAN: "",
    Phrase.FEWER_COORDINATES: "take an observation out of `of`",
    Phrase.TWO_BOUNDS: "Require two bounds there, such as 0.45 <= … <= 0.55, or use `where` for "
    "single states.",
}

T = TypeVar("T")
_SELECTION: KeyPath = ("settings", "selection")
_REACH: KeyPath = ("settings", "reach")
_SCALE: KeyPath = ("settings", "network", "scale")

# In pydantic's paths the strategy follows on the key, whether the file names it or not.
_STRATEGIES: dict[str, type[BaseModel]] = {
    "everywhere": Everywhere,
    "maximum_return": MaximumReturn,
    "maximum_deviation": MaximumDeviation,
}

# The model that holds a key, by the last name on the way to it.
_MODELS: dict[str, type[BaseModel]] = {
    "barrier": BarrierEntry,
    "constraints": ConstraintEntry,
    "environment": EnvironmentEntry,
    "fading": Fading,
    "network": Network,
    "picture": PictureEntry,
    "polytope": PolytopeEntry,
    "ball": BallEntry,
    "settings": RunSettings,
    "symmetric": SymmetryEntry,
    GRID: Grid,
    STATES: StatesReference,
    **_STRATEGIES,
}

_SENTENCES = {
    "dict_type": "expected a mapping of keys and values",
    "model_type": "expected a mapping of keys and values",
    "string_pattern_mismatch": "expected a text that is not blank",
    "string_too_short": "expected a text that is not empty",
}

# Of all that is wrong with a file: who mends so much reads it again anyway.
_MOST_TOLD = 20

_COUNTED = {"too_short": "at least {min_length}", "too_long": "at most {max_length}"}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """' Did you mean 'phi'?', or nothing if no known name is close."""
    # Long texts are no misspelt names, and comparing them would take long.
    close = difflib.get_close_matches(name, list(known), n=1) if len(name) <= 100 else []
    return f" Did you mean {close[0]!r}?" if close else ""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The message for a name that the file does not declare."""
    names = list(known)
    return (
        f"unknown {what} {name!r}. This file names {', '.join(names) or 'none'}."
        f"{did_you_mean(name, names)}"
    )


def file_words(coordinates: Sequence[str] = (), actions: Sequence[str] = ()) -> Words:
    """The words of a file that calls coordinates and actions so."""
    return Words(coordinates, actions, _TERMS, says_class=False)


class Finding(NamedTuple):
    """Something that is wrong.

    Attributes:
        kind: pydantic's name for it.
        path: in the file.
        text: a sentence about it.
    """

    kind: str
    path: KeyPath
    text: str


def check_format(source: Source) -> File:
    """The file's entries; everything that is wrong with their form in one error, line by line."""
    try:
        return File.model_validate(source.data)
    except ValidationError as error:
        raise together(_located(source, finding) for finding in described(error)) from None


def described(error: ValidationError, inside: KeyPath = ()) -> list[Finding]:
    """A sentence about everything that was found; `inside` is the path of what was checked."""
    findings: list[dict[str, Any]] = [
        {**finding, "loc": (*inside, *finding["loc"])} for finding in error.errors()
    ]
    return [Finding(each["type"], _path(each), _sentence(each)) for each in findings]


def _located(source: Source, finding: Finding) -> InvalidRulebook:
    path = finding.path
    if finding.kind == "missing":
        return source.spot(path[:-1]).without_key().error(finding.text)
    if finding.kind == "extra_forbidden":
        return source.spot(path).without_key().error(finding.text)
    named = (*path, "strategy")
    if finding.kind == "selection" and named in source.lines:
        path = named
    return source.spot(path).error(finding.text)


def together(problems: Iterable[InvalidRulebook]) -> InvalidRulebook:
    """One error with the first messages, one per line, in the order of the file."""
    in_order = sorted(problems, key=lambda problem: problem.line)
    lines = [str(problem) for problem in in_order[:_MOST_TOLD]]
    if len(in_order) > _MOST_TOLD:
        lines.append(f"And {len(in_order) - _MOST_TOLD:,} more.")
    return InvalidRulebook("\n".join(lines), in_order[0].line)


def gather(parts: Iterable[Callable[[], T]]) -> list[T]:
    """What all parts return; if some are invalid, what is wrong with each of them."""
    results, problems = [], []
    for part in parts:
        try:
            results.append(part())
        except InvalidRulebook as problem:
            problems.append(problem)
    if problems:
        raise together(problems)
    return results


def _path(finding: Mapping[str, Any]) -> KeyPath:
    """The path in the file: pydantic's own, without the tags of alternatives and of keys."""
    path = tuple(
        part for part in finding["loc"] if not str(part).startswith("<") and part != "[key]"
    )
    if path[:2] == _SELECTION and path[2:3] and path[2] in _STRATEGIES:
        return _SELECTION + path[3:]
    if path[:3] == (*_REACH, "fading"):
        return _REACH + path[3:]
    if path[:4] == (*_SCALE, "sizes"):
        return _SCALE + path[4:]
    return path


def _sentence(finding: Mapping[str, Any]) -> str:
    kind, value = finding["type"], _given(finding)
    if kind == "missing":
        return f"the key {finding['loc'][-1]!r} is missing{_inside(_path(finding)[:-1])}."
    if kind == "extra_forbidden":
        return _unknown_key(finding)
    if kind in _COUNTED:
        count = _COUNTED[kind].format(**finding["ctx"])
        return f"expected {count}, but got {finding['ctx']['actual_length']}."
    text = _SENTENCES.get(kind) or expectation(finding).replace(" a integer", " an integer")
    if str(finding["msg"]).endswith("."):  # a sentence of our own, complete
        return text
    return f"{text.removesuffix('.')}, but got {_shown(value)}.{_meant(finding, value)}"


def _given(finding: Mapping[str, Any]) -> Any:
    """What the file says; of a selection that is none, the strategy."""
    value = finding["input"]
    if finding["type"] == "selection" and isinstance(value, dict):
        return value.get("strategy")
    return value


def _meant(finding: Mapping[str, Any], value: Any) -> str:
    if finding["type"] == "extent" and isinstance(value, dict):
        return did_you_mean(str(finding["loc"][-1]), SHAPES)
    return did_you_mean(value, _choices(finding)) if isinstance(value, str) else ""


def _unknown_key(finding: Mapping[str, Any]) -> str:
    *around, key = finding["loc"]
    names = [part for part in around if isinstance(part, str)]
    model = _MODELS[names[-1]] if names else File
    known = [field.alias or name for name, field in model.model_fields.items()]
    strategy = f" {names[-1]!r}" if model in _STRATEGIES.values() else ""
    return (
        f"unknown key {key!r}{_inside(_path(finding)[:-1])}{strategy}. Known here: "
        f"{', '.join(known)}."
        f"{did_you_mean(str(key), known) or _where_it_belongs(str(key))}"
    )


def _where_it_belongs(key: str) -> str:
    """' It is a key of network.', or nothing if it is one of no settings."""
    homes = [name for name in ("network", "settings") if key in _MODELS[name].model_fields]
    strategies = [name for name, one in _STRATEGIES.items() if key in one.model_fields]
    if strategies:
        homes.append(f"selection, with strategy: {' or '.join(strategies)}")
    return f" It is a key of {homes[0]}." if homes else ""


def _inside(path: KeyPath) -> str:
    names = [part for part in path if isinstance(part, str)]
    if not names:
        return ""
    return " in this constraint" if names == ["constraints"] else f" in {names[-1]}"


def _choices(finding: Mapping[str, Any]) -> list[str]:
    if finding["type"] == "selection":
        return list(_STRATEGIES)
    if finding["type"] in ("reach", "scale"):
        return ["auto"]
    return re.findall(r"'([^']*)'", str(finding.get("ctx", {}).get("expected", "")))


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
