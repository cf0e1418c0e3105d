"""Episodes in TensorBoard's format: the scalars of every record, over environment steps.

Not through the writers that there are: that of torch takes seconds to import, and TensorBoard's
own one writes in a thread, which a full disk ends, and then waits for that thread forever.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, final

from handrail._storage import append, open_to_append
from handrail.errors import InvalidArgument
from handrail.learning.record import Record, Seconds
from handrail.learning.scalars import Scalars


@final
class TensorBoardLog:
    """Writes for TensorBoard; a callback of `learn`, and a context manager that closes its file.

    Args:
        folder: for `tensorboard --logdir`; made with the first episode.
        before: records of earlier episodes, which the averages go on from.
    """

    def __init__(self, folder: str | Path, before: Iterable[Record] = ()) -> None:
        self._folder = Path(folder)
        self._scalars = Scalars(before)
        self._file: _EventFile | None = None
        try:
            import tensorboard  # noqa: F401, PLC0415  (optional)
        except ModuleNotFoundError as error:
            raise InvalidArgument(
                'TensorBoardLog needs tensorboard: pip install "handrail[tensorboard]".'
            ) from error

    def __call__(self, _: object, record: Record, seconds: Seconds) -> None:
        """As a callback of `learn`."""
        self.write(record, seconds)

    def write(self, record: Record, seconds: Seconds) -> None:
        """One episode."""
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = _EventFile(self._folder, record.steps - record.length)
        self._file.add_scalars(self._scalars(record, seconds), record.steps)

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> TensorBoardLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@final
class _EventFile:
    """One session's file.

    Args:
        folder: where it goes.
        steps: of the environment before the session. What an interrupted session wrote beyond them
            is forgotten by TensorBoard: it comes again.
    """

    def __init__(self, folder: Path, steps: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # noqa: PLC0415
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
        from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415

        self._event, self._summary = Event, Summary
        now = time.time()
        # TensorBoard reads the files of a folder in the order of their names.
        self._file = open_to_append(folder / f"events.out.tfevents.{now:017.6f}.{os.getpid()}")
        self._records = RecordWriter(_Whole(self._file))
        self._add(Event(wall_time=now, file_version="brain.Event:2"))
        start = SessionLog(status=SessionLog.START)
        self._add(Event(wall_time=now, step=steps + 1, session_log=start))

    def add_scalars(self, scalars: dict[str, float], step: int) -> None:
        values = [
            self._summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()
        ]
        summary = self._summary(value=values)
        self._add(self._event(wall_time=time.time(), step=step, summary=summary))

    def _add(self, event: Any) -> None:
        self._records.write(event.SerializeToString())

    def close(self) -> None:
        self._file.close()


@final
class _Whole:
    """A file that is written to completely, or not without an error."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, content: bytes) -> None:
        append(self._file, content)
