"""What pydantic finds wrong with a file, as sentences with the file, the line and the key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from handrail.errors import InvalidRulebook
from handrail.rulebook.alternatives import GRID
from handrail.rulebook.format import ConstraintEntry, EnvironmentEntry, File, Grid, PictureEntry
from handrail.rulebook.names import did_you_mean
from handrail.rulebook.region_format import SHAPES, BallEntry, PolytopeEntry
from handrail.rulebook.source import Path, Source
from handrail.selections import Everywhere, MaximumDeviation, MaximumReturn
from handrail.settings import Network, RunSettings, expectation

T = TypeVar("T")

_SELECTION: Path = ("settings", "selection")
# In pydantic's paths the strategy follows on the key, whether the file names it or not.
_STRATEGIES: dict[str, type[BaseModel]] = {
    "everywhere": Everywhere,
    "maximum_return": MaximumReturn,
    "maximum_deviation": MaximumDeviation,
}
# The model that holds a key, by the last name on the way to it.
_MODELS: dict[str, type[BaseModel]] = {
    "constraints": ConstraintEntry,
    "environment": EnvironmentEntry,
    "network": Network,
    "picture": PictureEntry,
    "polytope": PolytopeEntry,
    "ball": BallEntry,
    "settings": RunSettings,
    GRID: Grid,
    **_STRATEGIES,
}
_SENTENCES = {
    "dict_type": "expected a mapping of keys and values",
    "model_type": "expected a mapping of keys and values",
    "string_pattern_mismatch": "expected a text that is not blank",
    "string_too_short": "expected a text that is not empty",
}
_COUNTED = {"too_short": "at least {min_length}", "too_long": "at most {max_length}"}


class Finding(NamedTuple):
    """Something that is wrong.

    Attributes:
        kind: pydantic's name for it.
        path: in the file.
        text: a sentence about it.
    """

    kind: str
    path: Path
    text: str


def check_format(source: Source) -> File:
    """The file's entries; everything that is wrong with their form in one error, line by line."""
    try:
        return File.model_validate(source.data)
    except ValidationError as error:
        raise together(_located(source, finding) for finding in described(error)) from None


def described(error: ValidationError, inside: Path = ()) -> list[Finding]:
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
    """One error with all messages, one per line, in the order of the file."""
    in_order = sorted(problems, key=lambda problem: problem.line)
    return InvalidRulebook("\n".join(str(problem) for problem in in_order), in_order[0].line)


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


def _path(finding: Mapping[str, Any]) -> Path:
    """The path in the file: pydantic's own, without the tags of alternatives and of keys."""
    path = tuple(
        part for part in finding["loc"] if not str(part).startswith("<") and part != "[key]"
    )
    if path[:2] == _SELECTION and path[2:3] and path[2] in _STRATEGIES:
        return _SELECTION + path[3:]
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
        f"{did_you_mean(str(key), known)}"
    )


def _inside(path: Path) -> str:
    names = [part for part in path if isinstance(part, str)]
    if not names:
        return ""
    return " in this constraint" if names == ["constraints"] else f" in {names[-1]}"


def _choices(finding: Mapping[str, Any]) -> list[str]:
    if finding["type"] == "selection":
        return list(_STRATEGIES)
    return re.findall(r"'([^']*)'", str(finding.get("ctx", {}).get("expected", "")))


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
