"""What a reproduction consists of: the exhibits that were asked for, and what they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import final

from handrail.errors import InvalidArgument
from paper.exhibit import Exhibit
from paper.exhibits import EXHIBITS
from paper.experiment import Experiment, Limits, experiments
from paper.job import Job, jobs_of

QUICK = Limits(episodes=30, timesteps=3000, rows=500)
QUICK_SEEDS = 2


@final
@dataclass(frozen=True)
class Plan:
    """What to do, and where results are kept.

    Attributes:
        folder: of the results.
        exhibits: to show, in the paper's order.
        experiments: that they need, in the size that was asked for.
        full: whether claims can be judged: nothing was cut down.
    """

    folder: Path
    exhibits: tuple[Exhibit, ...]
    experiments: tuple[Experiment, ...]
    full: bool

    def jobs(self) -> list[Job]:
        """All of them, done or not."""
        return [job for one in self.experiments for job in jobs_of(one, self.folder)]

    def unfinished(self) -> list[Job]:
        """What is left to do."""
        return [job for job in self.jobs() if not job.done]


def make_plan(
    names: Sequence[str], folder: Path, seeds: int | None = None, quick: bool = False
) -> Plan:
    """The plan for exhibits by name, or for "all"; names that there are not are refused."""
    if quick:
        return sized_plan(names, folder, QUICK_SEEDS if seeds is None else seeds, QUICK)
    return sized_plan(names, folder, seeds, None)


def sized_plan(
    names: Sequence[str], folder: Path, seeds: int | None, limits: Limits | None
) -> Plan:
    """The same with limits of one's own."""
    exhibits = exhibits_named(names)
    wanted = {exhibit.name for exhibit in exhibits}
    needed = [one for one in experiments() if wanted & set(one.figures)]
    _refuse_missing(needed, wanted)
    whole = limits is None and (seeds is None or all(seeds >= one.seeds for one in needed))
    sized = tuple(one.sized(seeds, limits) for one in needed)
    return Plan(folder, tuple(exhibits), sized, whole)


def exhibits_named(names: Sequence[str]) -> list[Exhibit]:
    """In the paper's order; "all" is everything."""
    known = {exhibit.name for exhibit in EXHIBITS}
    for name in names:
        if name not in {"all", *known}:
            raise InvalidArgument(
                f"There is no figure {name!r}. There are: all, "
                f"{', '.join(exhibit.name for exhibit in EXHIBITS)}."
            )
    return [one for one in EXHIBITS if "all" in names or one.name in names]


def _refuse_missing(needed: Sequence[Experiment], exhibits: set[str]) -> None:
    """What has to be installed is missed before anything is computed, not hours later."""
    landers = [one.name for one in needed if "lunar_lander" in one.name]
    drawn = exhibits & {"environments"}
    for package, extra, names in (
        ("Box2D", "box2d", [*landers, *drawn]),
        ("pygame", "box2d", [*drawn]),
    ):
        if names and find_spec(package) is None:
            raise InvalidArgument(
                f"{package} is not installed, and {', '.join(sorted(names))} needs it: pip install "
                f"'handrail[{extra}]', or name other figures (--list)."
            )
