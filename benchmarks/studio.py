"""How fast the studio answers a hand that drags: `python -m benchmarks.studio`.

A hand sends a new text sixty times a second; the process of the studio answers each time with what
is newest: drawn, held, measured, with the map. Counted are complete answers, over the pipe, as the
page gets them. Beside it, the processor time of an answer: what a core that is busy with nothing
else would need.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any, final

from handrail.rulebook import KeyPath, read_file
from handrail.studio.draft import Draft
from handrail.studio.engine import Engine, Target
from handrail.studio.jobs import COARSE, AnswerText
from handrail.studio.messages import Held, packed
from handrail.studio.workbench import Workbench

_PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "studio.md"
_PER_SECOND = 60


_WORDS = (
    "# How fast the studio answers",
    "",
    "*Written by `python -m benchmarks.studio`.* A hand drags a constraint, sixty new texts a "
    "second; an answer is the newest of them drawn, held from the first policy on (one hidden "
    f"layer of 5000), measured, and with a map of {COARSE} × {COARSE} states. The load is that of "
    f"the machine ({os.cpu_count()} cores) just before, of other work: with more than one of it "
    "per core, answers wait for their turn. The last columns are the processor time of an answer, "
    "and how many a second that is on a core of its own.",
    "",
    "| | answers a second | load | processor time | on a core of its own |",
    "|---|---|---|---|---|",
)


@final
@dataclass(frozen=True)
class Drag:
    """A number of a file that a hand moves.

    Attributes:
        file: its bundled name.
        what: for the table.
        path: of the number.
        start: its value.
        end: where the hand goes.
        seconds: how long it takes.
    """

    file: str
    what: str
    path: KeyPath
    start: float
    end: float
    seconds: float

    def text(self, share: float) -> str:
        """The file when the hand has gone a share of its way."""
        draft = Draft(*read_file(self.file))
        value = round(self.start + share * (self.end - self.start), 5)
        return draft.with_values({self.path: value}).text


DRAGS = (
    Drag(
        "cartpole",
        "18 points",
        ("constraints", 0, "where", "phi"),
        0.25,
        0.15,
        10.0,
    ),
    Drag(
        "cartpole_regions",
        "6 regions",
        ("constraints", 1, "region", "polytope", "vertices", 1, 0),
        -0.267,
        -0.3,
        20.0,
    ),
)


def answers_per_second(drag: Drag) -> float:
    """Complete ones, while the hand moves."""
    heard: Queue[Any] = Queue()
    engine = Engine(Target(*read_file(drag.file)), (), heard.put)
    engine.submit(AnswerText(0, drag.text(0.0), None, False))
    _next_answer(heard)
    steps = int(drag.seconds * _PER_SECOND)
    texts = [drag.text(step / steps) for step in range(steps)]
    start = time.perf_counter()
    for step, text in enumerate(texts):
        engine.submit(AnswerText(step, text, None, False))
        time.sleep(max(0.0, start + step / _PER_SECOND - time.perf_counter()))
    seconds = time.perf_counter() - start
    engine.end()
    return sum(isinstance(one, Held) for one in _all(heard)) / seconds


def _all(heard: Queue[Any]) -> list[Any]:
    return [heard.get() for _ in range(heard.qsize())]


def _next_answer(heard: Queue[Any]) -> None:
    while not isinstance(heard.get(timeout=300.0), Held):
        pass


def processor_seconds(drag: Drag, count: int = 10) -> float:
    """Of one answer."""
    bench = Workbench(Target(*read_file(drag.file)))
    for step in range(-2, count):
        if step == 0:
            start = time.process_time()
        bench.draw(step, drag.text((step + 2) / (count + 2)), None)
        packed(bench.hold(step, COARSE))
    return (time.process_time() - start) / count


def main() -> None:
    """Measure, print and keep it."""
    rows = []
    for drag in DRAGS:
        load = os.getloadavg()[0]
        wall, processor = answers_per_second(drag), processor_seconds(drag)
        rows.append(
            f"| {drag.what}, `{drag.file}` | {wall:.1f} | {load:.1f} | {1000 * processor:.0f} ms "
            f"| {1.0 / processor:.1f} |"
        )
        print(rows[-1])
    _PAGE.write_text("\n".join([*_WORDS, *rows, ""]))


if __name__ == "__main__":
    main()
