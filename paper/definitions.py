"""Experiments by name: small files that say what is done, for how many seeds, and who shows it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Annotated, final

import yaml
from pydantic import BaseModel, Field, ValidationError

from handrail.constraints.selection import STRICT
from handrail.errors import InvalidArgument
from handrail.settings import expectation
from paper.studies import Choosing, Limits, Prediction, QLearning, Study, Training, UpdateTimes

AnyStudy = Annotated[
    Training | Prediction | Choosing | UpdateTimes | QLearning, Field(discriminator="kind")
]


@final
class _File(BaseModel):
    """What a definition contains."""

    model_config = STRICT

    title: Annotated[str, Field(min_length=1)]
    label: Annotated[str, Field(min_length=1)]
    figures: Annotated[list[str], Field(min_length=1)]
    seeds: Annotated[int, Field(ge=1)]
    study: AnyStudy


@final
@dataclass(frozen=True)
class Experiment:
    """One experiment.

    Attributes:
        name: of its file.
        title: for people.
        label: the same in a few words, for legends.
        figures: names of the exhibits that show it.
        seeds: how many, from 0 on.
        study: what is done for each seed.
    """

    name: str
    title: str
    label: str
    figures: tuple[str, ...]
    seeds: int
    study: Study

    def sized(self, seeds: int | None, limits: Limits | None) -> Experiment:
        """The same with other numbers of seeds, and no larger than the limits."""
        study = self.study if limits is None else self.study.within(limits)
        return replace(self, seeds=self.seeds if seeds is None else seeds, study=study)


@cache
def experiments() -> tuple[Experiment, ...]:
    """Those that come with Handrail, by name."""
    folder = resources.files("paper") / "experiments"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(
        parse(file.read_text(encoding="utf-8"), file.name.removesuffix(".yaml"))
        for file in files
        if file.name.endswith(".yaml")
    )


def parse(text: str, name: str) -> Experiment:
    """The experiment that a text describes."""
    try:
        file = _File.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidArgument(f"experiment {name}, {place}: {expectation(first)}") from None
    except yaml.YAMLError as error:
        raise InvalidArgument(f"experiment {name} is not YAML: {error}") from error
    return Experiment(name, file.title, file.label, tuple(file.figures), file.seeds, file.study)
