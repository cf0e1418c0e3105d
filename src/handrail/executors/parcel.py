"""Tasks with their files, for places that share no disk with whoever watches.

A task that keeps all its files in one folder is sent with them, works in a folder of its own where
it arrives, and the changes there are sent back as they come; whoever watches makes the same changes
to the folder at home. So there is one way to write a run, wherever that is done. Changes are taken
when the task reports something, since it writes nothing meanwhile.

A folder at home that misses the last changes is one whose task was killed a moment earlier, from
which tasks go on anyway. Therefore order matters: lines come before what counts on them.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, NamedTuple, final

from typing_extensions import override

from handrail._storage import (
    LOCK,
    append,
    is_temporary,
    open_to_append,
    read_file,
    write_atomically,
)
from handrail.errors import HandrailError, StorageFailure
from handrail.executors.executor import Task

_SECONDS = 1.0  # between changes that are sent
_LINES = ".jsonl"  # files that grow; others may count on so many lines being there
_SAMPLE = 4096  # bytes before the old end of a file that has grown


class FolderTask(Task):
    """A task that can be done where its folder is not.

    All that it reads and writes is in `folder`, where files are appended to or replaced as a whole;
    killed at any moment, it goes on from what is there.
    """

    folder: Path

    @abstractmethod
    def moved(self, folder: Path) -> FolderTask:
        """The same task in another folder."""

    def files(self) -> Iterable[Path]:
        """Those in the folder that it goes on from; by default all."""
        return _files_in(self.folder)

    def progress(self) -> float:
        """How much would not be done again by now: it grows as the task gets on."""
        return 0.0

    def kept_from_others(self) -> AbstractContextManager[None]:
        """Nobody else does this task meanwhile; refused if somebody does."""
        return nullcontext()


@final
@dataclass(frozen=True)
class Changes:
    """What has changed in a folder; files by their names in it.

    Attributes:
        grown: what was appended, and where that begins.
        whole: new ones and replaced ones, in the order in which they are to be written.
        gone: those that are no more.
    """

    grown: Mapping[str, tuple[int, bytes]] = field(default_factory=dict)
    whole: Mapping[str, bytes] = field(default_factory=dict)
    gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.grown or self.whole or self.gone)

    def make(self, folder: Path) -> None:
        """The same changes there, so that a kill in between costs some of them and nothing else."""
        try:
            for name, (begin, content) in self.grown.items():
                _grow(folder / name, begin, content)
            if self.whole:
                _reach_the_disk(folder)  # what counts on lines comes after them there, too
            for name, content in self.whole.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomically(folder / name, content)
            for name in self.gone:
                (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise StorageFailure(
                f"Writing to {folder} failed: {error.strerror or error}. What was written before "
                "is kept: make room (or the folder writable), then go on from there."
            ) from error


def _grow(path: Path, begin: int, content: bytes) -> None:
    with open_to_append(path) as file:
        if os.fstat(file.fileno()).st_size != begin:
            raise StorageFailure(f"{path} was altered by somebody else while a task wrote to it.")
        append(file, content)


def _reach_the_disk(folder: Path) -> None:
    for path in folder.rglob(f"*{_LINES}"):
        with open_to_append(path) as file:
            os.fsync(file.fileno())


@final
@dataclass(frozen=True)
class Parcel(Task):
    """A task and its files.

    Attributes:
        task: that is done in a folder made for it.
        files: what is in that folder at first.
    """

    task: FolderTask
    files: Mapping[str, bytes]

    @classmethod
    def of(cls, task: FolderTask) -> Parcel:
        """With the files as they are now."""
        names = (one.relative_to(task.folder).as_posix() for one in task.files())
        return cls(task, {name: read_file(task.folder / name) for name in names})

    @property
    @override
    def name(self) -> str:
        return self.task.name

    @override
    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        with TemporaryDirectory(prefix="handrail-") as place:
            folder = Path(place) / (self.task.folder.name or "task")
            folder.mkdir()
            Changes(whole=self.files).make(folder)
            courier = _Courier(folder, report)
            try:
                self.task.moved(folder).run(courier.report, stop)
            except StorageFailure:
                raise  # of this disk, not of that at home
            except HandrailError as error:
                # People know the folder at home.
                raise HandrailError(
                    str(error).replace(str(folder), str(self.task.folder))
                ) from error
            finally:
                courier.send_changes()

    @override
    def can_be_interrupted(self) -> bool:
        return self.task.can_be_interrupted()


@final
class _Courier:
    """Reports what a task reports, and now and then the changes of its folder."""

    def __init__(self, folder: Path, report: Callable[[Any], None]) -> None:
        self._folder, self._report = folder, report
        self._seen = {name: _look(folder / name) for name in _names_in(folder)}
        self._sent_at = monotonic()

    def report(self, message: Any) -> None:
        self._report(message)
        if monotonic() - self._sent_at >= _SECONDS:
            self.send_changes()

    def send_changes(self) -> None:
        changes = self._changes()
        if changes:
            self._report(changes)
        self._sent_at = monotonic()

    def _changes(self) -> Changes:
        before, now = self._seen, {}
        grown: dict[str, tuple[int, bytes]] = {}
        whole: dict[str, bytes] = {}
        for name in sorted(_names_in(self._folder), key=self._place_in_order):
            path = self._folder / name
            old = before.get(name)
            if old is not None and old.stamp == _stamp(path):
                now[name] = old
                continue
            appended = None if old is None else old.appended(path)
            if old is not None and appended is not None:
                grown[name] = (old.stamp.size, appended)
            else:
                whole[name] = read_file(path)
            now[name] = _look(path)
        self._seen = now
        return Changes(grown, whole, tuple(sorted(before.keys() - now.keys())))

    def _place_in_order(self, name: str) -> tuple[bool, int]:
        return not name.endswith(_LINES), (self._folder / name).stat().st_mtime_ns


class _Stamp(NamedTuple):
    """What a file that nobody touches keeps."""

    number: int
    size: int
    changed: int


@final
@dataclass(frozen=True)
class _Look:
    """What a file was like.

    Attributes:
        stamp: by which it is known again.
        end: its last bytes.
    """

    stamp: _Stamp
    end: bytes

    def appended(self, path: Path) -> bytes | None:
        """What was added since; None if something else was done to it."""
        content = _read_from(path, self.stamp.size - len(self.end))
        is_longer = 0 < len(self.end) < len(content)
        return content[len(self.end) :] if is_longer and content.startswith(self.end) else None


def _look(path: Path) -> _Look:
    stamp = _stamp(path)
    return _Look(stamp, _read_from(path, max(0, stamp.size - _SAMPLE)))


def _read_from(path: Path, begin: int) -> bytes:
    with path.open("rb") as file:
        file.seek(begin)
        return file.read()


def _stamp(path: Path) -> _Stamp:
    about = path.stat()
    return _Stamp(about.st_ino, about.st_size, about.st_mtime_ns)


def _files_in(folder: Path) -> list[Path]:
    """At any depth; neither locks nor what is being written."""
    return [
        one
        for one in folder.rglob("*")
        if one.is_file() and one.name != LOCK and not is_temporary(one)
    ]


def _names_in(folder: Path) -> list[str]:
    return [one.relative_to(folder).as_posix() for one in _files_in(folder)]
