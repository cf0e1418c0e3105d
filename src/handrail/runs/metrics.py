"""Metrics as they come: one JSON line per episode, and TensorBoard where it is installed.

Lines are handed to the operating system one by one, so a killed process loses none. The running
SHA-256 lets a checkpoint say exactly which lines were written when it was made.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import final

from handrail._storage import to_line
from handrail.errors import InvalidRun
from handrail.learning import Record, Seconds

METRICS, TIMINGS, TENSORBOARD = "metrics.jsonl", "timings.jsonl", "tensorboard"


@final
@dataclass(frozen=True)
class LogPosition:
    """How much of the metrics was written, and what it was: by default nothing.

    Attributes:
        lines: whole ones.
        bytes: of these lines.
        sha256: of these bytes.
    """

    lines: int = 0
    bytes: int = 0
    sha256: str = hashlib.sha256().hexdigest()


@final
class MetricsLog:
    """The metrics of one run, appended to as they come.

    Args:
        folder: of the run.
        position: what was written when the checkpoint was made that the run continues from. What
            came after it is dropped: it will come again, bit for bit.
    """

    def __init__(self, folder: Path, position: LogPosition) -> None:
        self.lines = position.lines
        self._digest = _cut(folder / METRICS, position)
        _cut_to_lines(folder / TIMINGS, self.lines)
        self._bytes = position.bytes
        self._metrics = (folder / METRICS).open("ab", buffering=0)
        self._timings = (folder / TIMINGS).open("ab", buffering=0)
        self._events = None
        if find_spec("tensorboard"):
            self._events = _Events(folder / TENSORBOARD, first_episode=self.lines)

    def write(self, record: Record, seconds: Seconds) -> None:
        """Append one episode."""
        line = to_line(record.to_dict())
        self._metrics.write(line)
        timing = {"episode": record.episode, **asdict(seconds)}
        self._timings.write(to_line(timing))
        self._digest.update(line)
        self._bytes += len(line)
        self.lines += 1
        if self._events is not None:
            self._events.write(record, seconds)

    def position(self) -> LogPosition:
        """Where the metrics are now, on the disk."""
        os.fsync(self._metrics.fileno())
        os.fsync(self._timings.fileno())
        return LogPosition(self.lines, self._bytes, self._digest.hexdigest())

    def close(self) -> None:
        """Let the files go."""
        self._metrics.close()
        self._timings.close()
        if self._events is not None:
            self._events.close()


def read_records(folder: Path, position: LogPosition) -> list[Record]:
    """All whole lines of a run's metrics; a line that was being written is left out.

    Args:
        folder: of the run.
        position: of the newest checkpoint; up to there, the metrics must be as they were then.
    """
    path = folder / METRICS
    if not path.exists():
        return []
    content = path.read_bytes()
    _refuse_altered(path, content[: position.bytes], position)
    records = []
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            break
        try:
            records.append(Record.from_dict(json.loads(line)))
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidRun(f"{path}, line {number} is not a record: {error!r}") from error
    return records


def _cut(path: Path, position: LogPosition) -> hashlib._Hash:
    """Cut a file to the length it had at a checkpoint, if its beginning is still the same."""
    path.touch()
    length = position.bytes
    with path.open("r+b") as file:
        content = file.read(length)
        _refuse_altered(path, content, position)
        file.truncate(length)
    return hashlib.sha256(content)


def _refuse_altered(path: Path, beginning: bytes, position: LogPosition) -> None:
    if hashlib.sha256(beginning).hexdigest() != position.sha256:
        raise InvalidRun(
            f"{path} is not what the checkpoint was made with: it was altered or cut short within "
            f"its first {position.bytes} bytes. Restore it from a copy."
        )


def _cut_to_lines(path: Path, lines: int) -> None:
    path.touch()
    kept = path.read_bytes().splitlines(keepends=True)[:lines]
    os.truncate(path, sum(len(line) for line in kept))


@final
class _Events:
    """The numbers of every record as TensorBoard scalars.

    Through TensorBoard's own writer: torch's wrapper around it takes seconds to import.
    """

    def __init__(self, folder: Path, first_episode: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # noqa: PLC0415
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
        from tensorboard.summary.writer.event_file_writer import EventFileWriter  # noqa: PLC0415

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(folder))
        # A start tells TensorBoard to forget what an interrupted session wrote from here on.
        start = SessionLog(status=SessionLog.START)
        self._writer.add_event(Event(wall_time=time.time(), step=first_episode, session_log=start))

    def write(self, record: Record, seconds: Seconds) -> None:
        numbers = {key: value for key, value in record.to_dict().items() if _is_number(value)}
        numbers["active"] = len(record.active)
        numbers |= {f"seconds/{key}": value for key, value in asdict(seconds).items()}
        values = [
            self._summary.Value(tag=f"handrail/{key}", simple_value=value)
            for key, value in numbers.items()
            if key != "episode"
        ]
        summary = self._summary(value=values)
        event = self._event(wall_time=time.time(), step=record.episode, summary=summary)
        self._writer.add_event(event)

    def close(self) -> None:
        self._writer.close()


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
