"""Sweeps: a group of runs for every choice of settings, in a folder that is named after it.

`step_size=0.0001,hidden=1000/seed-0` is an ordinary run of an ordinary group. A folder is all that
a sweep remembers: what is in it is not computed again, and other values or seeds are added to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, final

from handrail.errors import InvalidArgument, InvalidRulebook
from handrail.rulebook import Rulebook, with_settings
from handrail.runs.configuration import is_run
from handrail.runs.group import Group, refuse_mixing, seed_folder
from handrail.runs.run import Run, make_agent, refuse_taken
from handrail.settings import Network, RunSettings, put_setting, setting_name, setting_path

_ORDER = [*RunSettings.model_fields, *Network.model_fields]  # of settings in a folder's name


@final
@dataclass(frozen=True)
class Axis:
    """A setting and the values that it takes in turn.

    Attributes:
        name: of the setting; inside of another one with a dot: selection.points.
        values: as a constraint file has them.
    """

    name: str
    values: tuple[Any, ...]


@final
@dataclass(frozen=True)
class Choice:
    """A value for each of some settings.

    Attributes:
        values: by where the settings are: ("network", "hidden").
    """

    values: tuple[tuple[tuple[str, ...], Any], ...]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Choice:
        """By the names of settings; the same settings are the same choice in any order."""
        paths = {setting_path(name): value for name, value in values.items()}
        return cls(tuple(sorted(paths.items(), key=lambda one: _rank(one[0]))))

    def __str__(self) -> str:
        return ",".join(f"{setting_name(path)}={text_of(value)}" for path, value in self.values)

    def applied_to(self, rulebook: Rulebook) -> Rulebook:
        """The rulebook with these settings, checked."""
        settings: dict[str, Any] = {}
        try:
            for path, value in self.values:
                put_setting(settings, path, value)
            return with_settings(rulebook, **settings)
        except (InvalidArgument, InvalidRulebook) as error:
            raise InvalidArgument(f"{self}: {error}") from error


def _rank(path: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    known = [name for name in path if name in _ORDER]
    return (_ORDER.index(known[-1]) if known else len(_ORDER)), path


def text_of(value: Any) -> str:
    """A value in the name of a folder, on every system."""
    if isinstance(value, Mapping):
        return "+".join(f"{key}{text_of(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return "x".join(map(text_of, value))
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return re.sub(r"[^\w.+-]", "_", str(value))


def choices(axes: Sequence[Axis]) -> list[Choice]:
    """Every combination of their values; the last axis turns fastest."""
    names = [setting_name(setting_path(axis.name)) for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(f"{name} is swept twice. Give all of its values at once.")
    if "seed" in names:
        raise InvalidArgument(
            "Every setting has the same seeds: say how many with seeds, not seed."
        )
    found = (
        Choice.of(dict(zip(names, one, strict=True))) for one in product(*(a.values for a in axes))
    )
    return list({str(one): one for one in found}.values())


def start_sweep(
    folder: Path,
    rulebook: Rulebook,
    chosen: Sequence[Choice],
    seeds: int,
    modules: Sequence[str] = (),
) -> list[Group]:
    """A group per choice with a run per seed; those that exist are opened as they are.

    Refused as a whole before any is begun; called again, it goes on.

    Args:
        folder: of the sweep.
        rulebook: what to learn under; its seed is that of the first run of each group.
        chosen: settings that differ.
        seeds: how many runs each.
        modules: that register the environment, to be named to whoever opens the runs.
    """
    books = {folder / str(one): one.applied_to(rulebook) for one in chosen}
    first = rulebook.settings.seed
    make_agent(next(iter(books.values())))  # what cannot be, or cannot be obeyed
    folders = {
        group: [seed_folder(group, seed) for seed in range(first, first + seeds)] for group in books
    }
    for group, book in books.items():
        refuse_mixing(group, book)
        for one in folders[group]:
            if not is_run(one):
                refuse_taken(one)
    return [
        Group(
            group,
            tuple(
                Run.open(one)
                if is_run(one)
                else Run.create(one, with_settings(book, seed=first + number), modules)
                for number, one in enumerate(folders[group])
            ),
        )
        for group, book in books.items()
    ]
