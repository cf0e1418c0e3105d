"""How far learning has come: the goal, and a line on the terminal or in a notebook."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from time import monotonic
from typing import final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from handrail.errors import InvalidArgument
from handrail.learning.record import Record
from handrail.settings import check_count

_SECONDS_A_LINE = 0.5  # in a notebook without widgets


@final
@dataclass(frozen=True)
class Goal:
    """When to stop: after so many `episodes` or `timesteps`, whichever `unit` says."""

    unit: str
    amount: int

    def done(self, episodes: int, steps: int) -> int:
        """How much of it there is."""
        return min(self.amount, episodes if self.unit == "episodes" else steps)


def goal_of(episodes: int | None, timesteps: int | None) -> Goal:
    """Exactly one of the two, and positive."""
    if (episodes is None) == (timesteps is None):
        raise InvalidArgument(
            f"learn needs either episodes=… or timesteps=…, but got episodes={episodes!r} and "
            f"timesteps={timesteps!r}."
        )
    unit, amount = ("episodes", episodes) if timesteps is None else ("timesteps", timesteps)
    check_count(unit, amount)
    assert amount is not None  # one of them was given
    return Goal(unit, amount)


def in_brief(records: Sequence[Record]) -> str:
    """The average score of the last episodes and the violation left now, for one line."""
    recent = [record.score for record in records[-100:]]
    text = f"score {sum(recent) / len(recent):.1f}"
    violation = records[-1].violation_after
    return text if violation is None else f"{text}, violation now {violation:+.0e}"


@contextmanager
def progress_line(goal: Goal, shown: bool) -> Iterator[Callable[[Sequence[Record], int], None]]:
    """Yields a function that takes the newest records and what is done of the goal."""
    console = Console(stderr=True)
    if shown and console.is_jupyter and find_spec("ipywidgets") is None:
        with _line_in_a_notebook(goal) as advance:
            yield advance
        return
    if not (shown and (console.is_terminal or console.is_jupyter)):
        yield lambda _records, _done: None
        return
    progress = Progress(
        TextColumn("learning"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[brief]}"),
        TimeRemainingColumn(),
        console=console,
    )
    recent: deque[Record] = deque(maxlen=100)
    with progress:
        task = progress.add_task(goal.unit, total=goal.amount, brief="")

        def advance(records: Sequence[Record], done: int) -> None:
            recent.extend(records)
            progress.update(task, completed=done, brief=in_brief(tuple(recent)))

        yield advance
        progress.refresh()  # in a notebook, rich leaves the end out


@contextmanager
def _line_in_a_notebook(goal: Goal) -> Iterator[Callable[[Sequence[Record], int], None]]:
    """A line of text that is written anew, for notebooks without the widgets that rich needs."""
    from IPython.display import display  # noqa: PLC0415  (only there in a notebook)

    recent: deque[Record] = deque(maxlen=100)
    shown = display({"text/plain": "learning"}, raw=True, display_id=True)
    last = monotonic()

    def advance(records: Sequence[Record], done: int) -> None:
        nonlocal last
        recent.extend(records)
        if done < goal.amount and monotonic() - last < _SECONDS_A_LINE:
            return
        last = monotonic()
        line = f"learning, {done} of {goal.amount} {goal.unit}: {in_brief(tuple(recent))}"
        shown.update({"text/plain": line}, raw=True)

    yield advance
