"""The files that come with Handrail, and what each of them is about.

Only their form is read here, nothing is built from it: a list of them needs no network, no
environment and no geometry, and waits for none of these libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import final

from handrail.errors import InvalidRulebook
from handrail.rulebook.declared_observations import DeclaredObservations
from handrail.rulebook.findings import check_format, did_you_mean
from handrail.rulebook.schema import File
from handrail.rulebook.source import Source, Spot, read, refuse_large
from handrail.rulebook.states_entry import StatesTable, read_place, read_table
from handrail.rulebook.states_file import ArrayFiles


@final
@dataclass(frozen=True)
class Overview:
    """A constraint file at a glance.

    Attributes:
        name: the file's, without its ending.
        description: one line for people; may be empty.
        environment: its id.
        states: how many are constrained; one that several entries speak of counts for each.
        regions: how many are constrained.
        pass_mark: the 100-episode average that counts as solved, where the file has one.
    """

    name: str
    description: str
    environment: str
    states: int
    regions: int
    pass_mark: float | None

    def __str__(self) -> str:
        counts = {"state": self.states, "region": self.regions}
        places = [f"{n} {word}{'s' * (n > 1)}" for word, n in counts.items() if n]
        mark = [] if self.pass_mark is None else [f"passes at {self.pass_mark:g}"]
        about = [f"\n  {self.description}"] if self.description else []
        return "".join([f"{self.name}: ", ", ".join([self.environment, *places, *mark]), *about])


def bundled() -> tuple[str, ...]:
    """The names of the files that come with Handrail."""
    names = (file.name for file in _bundled_files().iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def overviews() -> tuple[Overview, ...]:
    """Of the bundled files."""
    return tuple(_overview(*read_file(name)) for name in bundled())


def read_file(path_or_name: str | Path) -> tuple[str, str]:
    """The text of a constraint file, and what messages call it.

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
    return _decoded(content, file.name), file.name


def _overview(text: str, name: str) -> Overview:
    source = read(text, name)
    file = check_format(source)
    states, regions = _count(source, file)
    return Overview(
        name=name.removesuffix(".yaml"),
        description=file.description or "",
        environment=file.environment.id,
        states=states,
        regions=regions,
        pass_mark=file.pass_mark,
    )


def _count(source: Source, file: File) -> tuple[int, int]:
    """Of states and of regions, over all entries, however much is required at each."""
    states = regions = 0
    observations, arrays = DeclaredObservations.of(file.observations), ArrayFiles({})
    for index, entry in enumerate(file.constraints):
        if entry.region is not None:
            regions += 1
            continue
        path = ("constraints", index)
        table = StatesTable()
        if entry.table is not None:
            table = read_table(source, (*path, "table"), entry.table, observations.names)
        states += read_place(source, path, entry.where, table, observations, arrays).count
    return states, regions


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
