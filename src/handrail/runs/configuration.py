"""What a run was started with: settings and versions, its constraint file and that file's arrays.

All of it is in the folder of the run, or that could not be moved, and known by its SHA-256: a run
keeps its constraints, so a file that was altered is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any, final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from handrail._package import VERSION
from handrail._storage import (
    STATE_FORMAT,
    check_format,
    read_file,
    read_sealed,
    refuse_links,
    write_atomically,
    write_sealed,
)
from handrail.errors import InvalidRun
from handrail.executors import computing_versions
from handrail.rulebook import Rulebook, digests, parse, with_settings
from handrail.settings import first_finding

CONFIGURATION, CONSTRAINTS, STATES = "configuration.json", "constraints.yaml", "states"
_MODULE = r"^[^\W\d]\w*(\.[^\W\d]\w*)*$"  # a dotted name


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / CONFIGURATION).is_file()


@final
class Configuration(BaseModel):
    """What a run was started with, and by which versions: other ones may compute other numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: int
    version: str
    versions: dict[str, str] | None = None  # the first runs did not say
    modules: list[Annotated[str, Field(pattern=_MODULE)]] | None = None
    name: str
    constraints: str
    states: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] | None = None
    settings: dict[str, Any]

    @classmethod
    def of(cls, rulebook: Rulebook, modules: Sequence[str]) -> Configuration:
        """Of a run that starts now."""
        return cls(
            format=STATE_FORMAT,
            version=VERSION,
            versions=computing_versions(),
            modules=list(modules) or None,
            name=rulebook.name,
            constraints=hashlib.sha256(rulebook.text.encode()).hexdigest(),
            states=digests(rulebook.arrays) or None,
            settings=rulebook.settings.model_dump(),
        )

    @classmethod
    def read(cls, folder: Path) -> Configuration:
        """Of the run in a folder."""
        if not is_run(folder):
            raise InvalidRun(
                f"{folder} is not a run: it has no {CONFIGURATION}. `handrail train` makes runs."
            )
        refuse_links(folder)
        path = folder / CONFIGURATION
        values = read_sealed(path)
        check_format(values, path)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise InvalidRun(
                f"{path} is no configuration of a run: {first_finding(error)}"
            ) from error

    def with_settings(self, rulebook: Rulebook) -> Configuration:
        """The same with the settings of another rulebook."""
        return self.model_copy(update={"settings": rulebook.settings.model_dump()})

    def write(self, folder: Path) -> None:
        """Into the folder, which is a run from here on."""
        write_sealed(folder / CONFIGURATION, self.model_dump(exclude_none=True))


def write_constraints(folder: Path, rulebook: Rulebook) -> None:
    """The constraint file and its arrays."""
    write_atomically(folder / CONSTRAINTS, rulebook.text.encode())
    for name, digest in digests(rulebook.arrays).items():
        (folder / STATES).mkdir(exist_ok=True)
        write_atomically(_array_path(folder, name, digest), rulebook.arrays[name])


def read_constraints(folder: Path, configuration: Configuration) -> Rulebook:
    """The constraint file, with the settings of the run; refused if anything was altered."""
    path = folder / CONSTRAINTS
    try:
        text = read_file(path)
    except OSError as error:
        raise InvalidRun(f"{path} cannot be read: {error.strerror}.") from error
    _refuse_altered(path, text, configuration.constraints)
    arrays = _read_arrays(folder, configuration.states or {})
    try:
        rulebook = parse(text.decode(), configuration.name, arrays)
    except UnicodeDecodeError as error:
        raise InvalidRun(f"{path} is no text: {error}.") from error
    return with_settings(rulebook, **configuration.settings)


def _read_arrays(folder: Path, known: Mapping[str, str]) -> dict[str, bytes]:
    arrays = {}
    for name, digest in known.items():
        path = _array_path(folder, name, digest)
        try:
            arrays[name] = read_file(path)
        except OSError as error:
            raise InvalidRun(
                f"{path} cannot be read: {error.strerror}. It holds the states of {name}, which "
                "the constraints of this run are about."
            ) from error
        _refuse_altered(path, arrays[name], digest)
    return arrays


def _refuse_altered(path: Path, content: bytes, digest: str) -> None:
    if hashlib.sha256(content).hexdigest() != digest:
        raise InvalidRun(
            f"{path} was altered after the run was started. A run keeps its constraints: start a "
            "new one with the altered file."
        )


def _array_path(folder: Path, name: str, digest: str) -> Path:
    """By its content: a name may lead elsewhere, such as ../frames.npy."""
    return folder / STATES / f"{digest}{PurePath(name).suffix}"
