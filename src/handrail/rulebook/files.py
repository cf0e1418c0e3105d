"""Constraint files on disk, and those that come with Handrail."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from handrail.errors import InvalidRulebook
from handrail.rulebook.names import did_you_mean
from handrail.rulebook.rulebook import Rulebook, parse
from handrail.rulebook.source import Spot, refuse_large


def bundled() -> tuple[str, ...]:
    """The names of the files that come with Handrail."""
    names = (file.name for file in _bundled_files().iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def load(path_or_name: str | Path) -> Rulebook:
    """The rulebook of a file.

    Args:
        path_or_name: a path, or the name of a bundled file, with or without .yaml.
    """
    try:
        file = _find(path_or_name)
        if isinstance(file, Path):
            refuse_large(file.stat().st_size, file.name)
        content = file.read_bytes()
    except OSError as error:
        raise InvalidRulebook(f"Cannot read {str(path_or_name)!r}: {error.strerror}.") from error
    return parse(_decoded(content, file.name), file.name)


def _bundled_files() -> Traversable:
    return resources.files("handrail.rulebook") / "bundled"


def _find(path_or_name: str | Path) -> Path | Traversable:
    path = Path(path_or_name)
    if path.is_file():
        return path
    name = str(path_or_name).removesuffix(".yaml")
    if name in bundled():
        return _bundled_files() / f"{name}.yaml"
    what = "is a directory, not a file" if path.is_dir() else "does not exist"
    raise InvalidRulebook(
        f"{str(path_or_name)!r} {what}. Give the path of a constraint file, or one of those that "
        f"come with Handrail: {', '.join(bundled())}.{did_you_mean(name, bundled())}"
    )


def _decoded(content: bytes, file: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Spot(file, line).error(
            f"the byte {content[error.start]:#04x} is not UTF-8. A constraint file is text (YAML); "
            "if this is one, save it as UTF-8."
        ) from None
