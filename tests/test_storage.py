"""Files are whole or not there, and no altered byte goes unnoticed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from handrail._storage import (
    append,
    check_format,
    load_state,
    only_process,
    open_to_append,
    read_file,
    read_sealed,
    refuse_links,
    save_state,
    tensor,
    write_atomically,
)
from handrail.errors import InvalidRun

TENSORS: dict[str, NDArray[Any]] = {
    "policy.0.weight": np.random.default_rng(0).normal(size=(7, 3)),
    "baseline.spread": np.zeros((0, 2)),
    "single": np.arange(5, dtype=np.float32),
}
STATE = {"episodes": 3, "labels": ["π ≥ 0.95", "b"], "rng": {"state": 2**127 + 1}, "x": [0.1, None]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.safetensors"
    save_state(path, TENSORS, STATE)
    return path


def test_what_is_loaded_is_what_was_saved(file: Path) -> None:
    tensors, state = load_state(file)
    assert state == STATE
    assert set(tensors) == set(TENSORS)
    for name, saved in TENSORS.items():
        np.testing.assert_array_equal(tensors[name], saved)
        assert tensors[name].dtype == saved.dtype


def test_weights_that_lie_by_columns_are_saved_right(tmp_path: Path) -> None:
    array = np.asfortranarray(np.random.default_rng(0).normal(size=(5, 4)))
    save_state(tmp_path / "a", {"a": array}, {})
    np.testing.assert_array_equal(load_state(tmp_path / "a")[0]["a"], array)


def test_any_safetensors_reader_opens_it(file: Path) -> None:
    with safe_open(file, framework="numpy") as opened:
        np.testing.assert_array_equal(opened.get_tensor("single"), TENSORS["single"])
        assert '"episodes": 3' in opened.metadata()["handrail"]


def test_saving_is_deterministic(file: Path, tmp_path: Path) -> None:
    save_state(tmp_path / "again", dict(reversed(TENSORS.items())), STATE)
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


def test_every_altered_byte_is_noticed(file: Path) -> None:
    """Each byte of the file in turn, with a few kinds of damage: well over 200 alterations."""
    original = file.read_bytes()
    rng = np.random.default_rng(0)
    places = sorted({*range(0, len(original), 3), *range(120)})
    assert len(places) > 250
    for place in places:
        damaged = bytearray(original)
        damaged[place] ^= int(rng.integers(1, 256))
        file.write_bytes(damaged)
        with pytest.raises(InvalidRun, match=r"checkpoint.safetensors (is not a file|was altered)"):
            load_state(file)


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 100, 0.5, 0.99, -1])
def test_a_truncated_file_is_noticed(file: Path, keep: float) -> None:
    original = file.read_bytes()
    length = int(keep * len(original)) if isinstance(keep, float) else keep
    file.write_bytes(original[:length])
    with pytest.raises(InvalidRun, match="damaged"):
        load_state(file)


def test_added_bytes_are_noticed(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(InvalidRun, match=r"damaged|altered"):
        load_state(file)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x89PNG\r\n\x1a\n" + b"\0" * 100, b"\x80\x04\x95", b"{}" * 50]
)
def test_foreign_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "foreign").write_bytes(content)
    with pytest.raises(InvalidRun, match="not a file that Handrail wrote"):
        load_state(tmp_path / "foreign")


def test_a_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    for metadata in (None, {"handrail": "[]"}, {"handrail": "{}"}, {"other": "x"}):
        save_file(TENSORS, tmp_path / "foreign", metadata=metadata)
        with pytest.raises(InvalidRun, match="not a file that Handrail wrote"):
            load_state(tmp_path / "foreign")
    with pytest.raises(InvalidRun, match="There is no file"):
        load_state(tmp_path / "missing")
    with pytest.raises(InvalidRun, match="is not a regular file: a folder, a pipe or a dev"):
        load_state(tmp_path)


def test_other_formats_are_refused(file: Path) -> None:
    with pytest.raises(InvalidRun, match="has format 99, but this version of Handrail reads"):
        check_format({"format": 99}, file)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_no_litter(
    file: Path, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    original = file.read_bytes()
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(file, b"new")
    assert file.read_bytes() == original
    assert os.listdir(file.parent) == [file.name]


def test_numbers_that_are_none_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        save_state(tmp_path / "a", {}, {"x": float("nan")})


def test_where_folders_cannot_be_opened_files_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_open = os.open

    def fail(path: Path, *rest: Any) -> int:
        if path == tmp_path:
            raise PermissionError("folders cannot be opened")
        return to_open(path, *rest)

    monkeypatch.setattr("handrail._storage._FOLDERS_CAN_BE_OPENED", False)  # as on Windows
    monkeypatch.setattr(os, "open", fail)
    write_atomically(tmp_path / "file", b"content")
    monkeypatch.undo()
    assert (tmp_path / "file").read_bytes() == b"content"


_HOLD = """
import sys, time
from pathlib import Path
from handrail._storage import only_process
with only_process(Path(sys.argv[1]), "learning"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_folder_belongs_to_one_process_until_it_ends_however_it_ends(tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(InvalidRun, match=r"Another process is learning in .* stop it first\.$"),
            only_process(tmp_path, "learning"),
        ):
            pass
        other.kill()
    with only_process(tmp_path, "learning"):
        pass


class TestWhatIsNoPlainFile:
    """Files that are none, in folders of somebody else."""

    def test_links_are_refused_at_any_depth(self, tmp_path: Path) -> None:
        folder, mine = tmp_path / "theirs", tmp_path / "mine"
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "file").write_text("plain")
        mine.write_text("ten years of work")
        refuse_links(folder)
        for target in (mine, tmp_path, tmp_path / "nowhere", folder / "a" / "file"):
            link = folder / "a" / "b" / "link"
            link.symlink_to(target)
            with pytest.raises(InvalidRun, match=r"a/b/link is a symbolic link. Handrail follows "):
                refuse_links(folder)
            link.unlink()

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
    def test_pipes_and_devices_are_neither_waited_for_nor_read(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InvalidRun, match="pipe is not a regular file"):
            refuse_links(tmp_path)
        for path in (tmp_path / "pipe", Path("/dev/zero")):
            for read in (read_file, load_state, read_sealed):
                with pytest.raises(InvalidRun, match=f"{path} is not a regular file: a folder, a "):
                    read(path)
        with pytest.raises((InvalidRun, OSError)):
            open_to_append(tmp_path / "pipe")

    def test_nothing_is_appended_through_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "mine").write_text("ten years of work")
        (tmp_path / "link").symlink_to(tmp_path / "mine")
        with pytest.raises(OSError, match="symbolic links"):
            open_to_append(tmp_path / "link")

    def test_a_link_is_replaced_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "mine").write_text("ten years of work")
        for name in ("file", f".file.{os.getpid()}"):  # also the name that it has at first
            (tmp_path / name).symlink_to(tmp_path / "mine")
        write_atomically(tmp_path / "file", b"content")
        assert (tmp_path / "file").read_bytes() == b"content"
        assert not (tmp_path / "file").is_symlink()
        assert (tmp_path / "mine").read_text() == "ten years of work"

    def test_what_is_too_large_is_not_read(self, tmp_path: Path) -> None:
        with (tmp_path / "huge").open("wb") as file:
            file.truncate(2**40)  # of nothing but holes
        for read in (load_state, read_sealed):
            with pytest.raises(InvalidRun, match=r"huge is damaged: it has more than [0-9,]+ b"):
                read(tmp_path / "huge")


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, '{"sha256": NaN}', "\x00"])
def test_json_that_no_reader_likes(tmp_path: Path, content: str) -> None:
    (tmp_path / "file.json").write_text(content)
    with pytest.raises(InvalidRun, match=r"file.json (is damaged|was altered)"):
        read_sealed(tmp_path / "file.json")
    save_file(TENSORS, tmp_path / "file", metadata={"handrail": content})
    with pytest.raises(InvalidRun, match=r"is not a file that Handrail wrote|was altered"):
        load_state(tmp_path / "file")


def test_a_disk_that_takes_a_part_has_not_taken_it(tmp_path: Path) -> None:
    class Short:
        def write(self, content: bytes) -> int:
            return len(content) - 1

    with pytest.raises(OSError, match="No space left on device"):
        append(Short(), b"line\n")  # type: ignore[arg-type]
    with open_to_append(tmp_path / "file") as file:
        append(file, b"one\n")
        append(file, b"two\n")
    assert (tmp_path / "file").read_bytes() == b"one\ntwo\n"


def test_a_tensor_is_what_it_should_be() -> None:
    tensors = {"a": np.zeros((3, 2)), "nan": np.array([np.nan]), "whole": np.arange(3)}
    assert tensor(tensors, "a", (None, 2)) is tensors["a"]
    assert tensor(tensors, "whole", (3,), "int64") is tensors["whole"]
    with pytest.raises(InvalidRun, match="There is no tensor 'b'"):
        tensor(tensors, "b", (3,))
    with pytest.raises(InvalidRun, match=r"'a' is float64 of shape \(3, 2\), but float64 of any ×"):
        tensor(tensors, "a", (None, 3))
    with pytest.raises(InvalidRun, match="'whole' is int64 of shape"):
        tensor(tensors, "whole", (3,))
    with pytest.raises(InvalidRun, match="'nan' has numbers that are not finite"):
        tensor(tensors, "nan", (1,))
