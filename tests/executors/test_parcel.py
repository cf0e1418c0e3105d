"""Tasks that are done where their folder is not: what they write arrives at home."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import pytest

from handrail._storage import append, open_to_append, write_atomically
from handrail.errors import InvalidArgument, StorageFailure
from handrail.executors import parcel
from handrail.executors.parcel import Changes, FolderTask, Parcel


@final
@dataclass(frozen=True)
class Tally(FolderTask):
    """Appends lines, and now and then writes down how many there are, under a name that says so."""

    folder: Path
    upto: int
    failure: str = ""

    @property
    def name(self) -> str:
        return "tally"

    def moved(self, folder: Path) -> Tally:
        return replace(self, folder=folder)

    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        known = tally_of(self.folder)
        lines = self.folder / "lines.jsonl"
        if lines.exists():
            write_atomically(lines, b"".join(lines.read_bytes().splitlines(keepends=True)[:known]))
        with open_to_append(lines) as file:
            for number in range(known, self.upto):
                append(file, line(number))
                if number % 3 == 2:
                    self.count(number + 1)
                report(number)
        if self.failure:
            raise InvalidArgument(f"{self.folder}: {self.failure}")

    def count(self, n: int) -> None:
        (self.folder / "counts").mkdir(exist_ok=True)
        write_atomically(self.folder / "counts" / f"{n:04d}", whole(n))
        for old in sorted((self.folder / "counts").iterdir())[:-1]:
            old.unlink()


def line(number: int) -> bytes:
    return f'{{"number": {number}}}\n'.encode()


def whole(n: int) -> bytes:
    """Of the lines that must be there: as a checkpoint counts on the metrics."""
    return hashlib.sha256(b"".join(map(line, range(n)))).digest()


def tally_of(folder: Path) -> int:
    """How far a folder is; it must hold all that it counts on."""
    counts = sorted((folder / "counts").glob("*"))
    n = int(counts[-1].name) if counts else 0
    lines = folder / "lines.jsonl"
    written = lines.read_bytes().splitlines(keepends=True)[:n] if lines.exists() else []
    for count in counts:
        beginning = b"".join(written[: int(count.name)])
        assert hashlib.sha256(beginning).digest() == count.read_bytes()
    return n


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcel, "_SECONDS", 0.0)


def done_elsewhere(task: Tally, at_most: int | None = None) -> list[Any]:
    """Reports of a task that is done elsewhere; the first changes are made at home, no more."""
    sent: list[Any] = []
    travelling: Parcel = pickle.loads(pickle.dumps(Parcel.of(task)))
    try:
        travelling.run(sent.append, lambda: False)
    finally:
        for change in [one for one in sent if isinstance(one, Changes)][:at_most]:
            change.make(task.folder)
            tally_of(task.folder)
    return [one for one in sent if not isinstance(one, Changes)]


def test_a_folder_at_home_becomes_what_it_would_have_become_there(tmp_path: Path) -> None:
    for folder in ("away", "home"):
        (tmp_path / folder).mkdir()
    Tally(tmp_path / "home", 20).run(lambda _: None, lambda: False)
    assert done_elsewhere(Tally(tmp_path / "away", 20)) == list(range(20))
    for name in ("lines.jsonl", "counts/0018"):
        there, here = (tmp_path / folder / name for folder in ("away", "home"))
        assert there.read_bytes() == here.read_bytes()
    assert [one.name for one in (tmp_path / "away" / "counts").iterdir()] == ["0018"]


def test_it_goes_on_from_what_had_arrived(tmp_path: Path) -> None:
    for changes in (1, 3, 4, 0, 5):
        done_elsewhere(Tally(tmp_path, 20), changes)
    assert tally_of(tmp_path) == 9
    assert done_elsewhere(Tally(tmp_path, 20)) == list(range(9, 20))
    assert (tmp_path / "lines.jsonl").read_bytes() == b"".join(map(line, range(20)))


def test_changes_are_whatever_was_cut_off_in_between(tmp_path: Path) -> None:
    """Every file of a change may be the last that is written; what is there can be gone on from."""
    sent: list[Any] = []
    (tmp_path / "away").mkdir()
    Parcel.of(Tally(tmp_path / "away", 12)).run(sent.append, lambda: False)
    changes = [one for one in sent if isinstance(one, Changes)]
    home = tmp_path / "home"
    home.mkdir()
    for one in changes:
        for name, content in one.grown.items():
            Changes(grown={name: content}).make(home)
            tally_of(home)
        for name, written in one.whole.items():
            Changes(whole={name: written}).make(home)
            tally_of(home)
        Changes(gone=one.gone).make(home)
        tally_of(home)
    assert tally_of(home) == 12


def test_what_fails_is_said_of_the_folder_at_home(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=f"^{tmp_path}: it cannot be.$"):
        done_elsewhere(Tally(tmp_path, 4, failure="it cannot be."))
    assert (tmp_path / "lines.jsonl").read_bytes() == b"".join(map(line, range(4)))


def test_files_that_somebody_else_altered(tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_bytes(b"altered\n")
    with pytest.raises(StorageFailure, match=r"lines.jsonl was altered by somebody else"):
        Changes(grown={"lines.jsonl": (4, b"more\n")}).make(tmp_path)


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StorageFailure, match="make room"):
        Changes(whole={"taken/name": b""}).make(tmp_path)
