"""Metrics as they come: one JSON line per episode, and TensorBoard where it is installed.

Lines are handed to the operating system one by one, so a killed process loses none. The running
SHA-256 lets a checkpoint say exactly which lines were written when it was made. What a file has
beyond them is cut off by writing a new one: a file that is linked elsewhere, too, stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, final

from pydantic import BaseModel, Field

from handrail._storage import append, open_to_append, read_file, to_line, write_atomically
from handrail.errors import InvalidRun
from handrail.learning import Record, Seconds, TensorBoardLog
from handrail.settings import STRICT

METRICS, TIMINGS, TENSORBOARD = "metrics.jsonl", "timings.jsonl", "tensorboard"


@final
class LogPosition(BaseModel):
    """How much of the metrics was written, and what it was: by default nothing."""

    model_config = STRICT

    lines: Annotated[int, Field(ge=0)] = 0
    """Whole ones."""
    bytes: Annotated[int, Field(ge=0)] = 0
    """Of these lines."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] = hashlib.sha256().hexdigest()
    """Of these bytes."""


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
        kept = _cut(folder / METRICS, position)
        self._digest = hashlib.sha256(kept)
        _cut_to_lines(folder / TIMINGS, self.lines)
        self._bytes = position.bytes
        self._metrics = open_to_append(folder / METRICS)
        self._timings = open_to_append(folder / TIMINGS)
        self._events = None
        if find_spec("tensorboard"):
            self._events = TensorBoardLog(folder / TENSORBOARD, _records(folder / METRICS, kept))

    def write(self, record: Record, seconds: Seconds) -> None:
        """Append one episode."""
        line = to_line(record.to_dict())
        append(self._metrics, line)
        timing = {"episode": record.episode, **asdict(seconds)}
        append(self._timings, to_line(timing))
        self._digest.update(line)
        self._bytes += len(line)
        self.lines += 1
        if self._events is not None:
            self._events.write(record, seconds)

    def position(self) -> LogPosition:
        """Where the metrics are now, on the disk."""
        os.fsync(self._metrics.fileno())
        os.fsync(self._timings.fileno())
        digest = self._digest.hexdigest()
        return LogPosition(lines=self.lines, bytes=self._bytes, sha256=digest)

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
    content = _read(path)
    _refuse_altered(path, content[: position.bytes], position)
    return _records(path, content)


def _records(path: Path, content: bytes) -> list[Record]:
    records = []
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            break
        try:
            records.append(Record.from_dict(json.loads(line)))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InvalidRun(f"{path}, line {number} is not a record: {error!r}") from error
    return records


def _cut(path: Path, position: LogPosition) -> bytes:
    """Cut a file to the length it had at a checkpoint, if its beginning is still the same."""
    content = _read(path)
    kept = content[: position.bytes]
    _refuse_altered(path, kept, position)
    _keep(path, content, kept)
    return kept


def _cut_to_lines(path: Path, lines: int) -> None:
    content = _read(path)
    _keep(path, content, b"".join(content.splitlines(keepends=True)[:lines]))


def _read(path: Path) -> bytes:
    """Nothing where there is no such file yet."""
    try:
        return read_file(path)
    except FileNotFoundError:
        return b""


def _keep(path: Path, content: bytes, kept: bytes) -> None:
    """Leave the beginning of a file, which is this run's alone from here on."""
    if content != kept or (path.exists() and path.stat().st_nlink > 1):
        write_atomically(path, kept)


def _refuse_altered(path: Path, beginning: bytes, position: LogPosition) -> None:
    if hashlib.sha256(beginning).hexdigest() != position.sha256:
        raise InvalidRun(
            f"{path} is not what the checkpoint was made with: it was altered or cut short within "
            f"its first {position.bytes} bytes. Restore it from a copy."
        )
