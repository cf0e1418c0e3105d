"""What pydantic finds wrong with a file, as sentences with the file, the line and the key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from handrail.errors import InvalidRulebook
from handrail.rulebook.format import (
    GRID,
    ConstraintEntry,
    EnvironmentEntry,
    File,
    Grid,
    PictureEntry,
)
from handrail.rulebook.names import did_you_mean
from handrail.rulebook.source import Path, Source
from handrail.settings import Network, RunSettings, expectation

T = TypeVar("T")

# The model that holds a key, by the last name on the way to it.
_MODELS: dict[str, type[BaseModel]] = {
    "constraints": ConstraintEntry,
    "environment": EnvironmentEntry,
    "network": Network,
    "picture": PictureEntry,
    "settings": RunSettings,
    GRID: Grid,
}
_SENTENCES = {
    "dict_type": "expected a mapping of keys and values",
    "model_type": "expected a mapping of keys and values",
    "string_pattern_mismatch": "expected a text that is not blank",
    "string_too_short": "expected a text that is not empty",
}
_COUNTED = {"too_short": "at least {min_length}", "too_long": "at most {max_length}"}


def check_format(source: Source) -> File:
    """The file's entries; everything that is wrong with their form in one error, line by line."""
    try:
        return File.model_validate(source.data)
    except ValidationError as error:
        problems = [
            source.spot(_line_path(finding)).without_key().error(text)
            if finding["type"] in ("missing", "extra_forbidden")
            else source.spot(_path(finding)).error(text)
            for finding, text in described(error)
        ]
        raise together(problems) from None


def described(error: ValidationError, inside: Path = ()) -> list[tuple[dict[str, Any], str]]:
    """Every finding and a sentence about it; `inside` is the path of what was checked."""
    findings: list[dict[str, Any]] = [
        {**finding, "loc": (*inside, *finding["loc"])} for finding in error.errors()
    ]
    return [(finding, _sentence(finding)) for finding in findings]


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
    """The path in the file: pydantic's own, without the tags of alternatives."""
    return tuple(part for part in finding["loc"] if not str(part).startswith("<"))


def _line_path(finding: Mapping[str, Any]) -> Path:
    path = _path(finding)
    return path[:-1] if finding["type"] == "missing" else path


def _sentence(finding: Mapping[str, Any]) -> str:
    kind, value = finding["type"], finding["input"]
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
    meant = did_you_mean(value, _choices(finding)) if isinstance(value, str) else ""
    return f"{text.removesuffix('.')}, but got {_shown(value)}.{meant}"


def _unknown_key(finding: Mapping[str, Any]) -> str:
    *around, key = finding["loc"]
    names = [part for part in around if isinstance(part, str)]
    model = _MODELS[names[-1]] if names else File
    known = [field.alias or name for name, field in model.model_fields.items()]
    return (
        f"unknown key {key!r}{_inside(_path(finding)[:-1])}. Known here: {', '.join(known)}."
        f"{did_you_mean(str(key), known)}"
    )


def _inside(path: Path) -> str:
    names = [part for part in path if isinstance(part, str)]
    if not names:
        return ""
    return " in this constraint" if names == ["constraints"] else f" in {names[-1]}"


def _choices(finding: Mapping[str, Any]) -> list[str]:
    return re.findall(r"'([^']*)'", str(finding.get("ctx", {}).get("expected", "")))


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
