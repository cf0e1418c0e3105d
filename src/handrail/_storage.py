"""Files that are either whole or not there: tensors and a JSON state, no pickle.

One file is a safetensors file whose metadata holds the state. The state carries a SHA-256 of
everything, and what is loaded must serialise to the very bytes that were read, so no altered byte
goes unnoticed.

A folder may come from somebody else, so nothing in it is followed: links out of it, pipes and
devices are refused by name before anything is read or written.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from handrail.errors import InvalidRun

STATE_FORMAT = 1  # of what a state contains; raised when older files can no longer be understood
LOCK = ".lock"
_KEY = "handrail"
_FOLDERS_CAN_BE_OPENED = os.name != "nt"
# Where the system has them: no link is followed, no pipe is waited for, no line end is changed.
_PLAIN = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_OWN = _PLAIN | getattr(os, "O_NOFOLLOW", 0)
_READABLE_BY_ALL = 0o666  # less what the user's mask takes away

# Bytes. What is larger is none of ours, and would only fill the memory: certificates of thousands
# of constraints are smaller, and so are checkpoints of a hundred million weights.
_LARGEST_SEALED, _LARGEST_STATE = 2**24, 2**30

# Endings of what people write, which readers are given by mistake.
_TEXTS = (".yaml", ".yml", ".json")

# What readers raise when bytes are not what they expect; the last one at JSON nested too deeply.
_NOT_OURS = (
    SafetensorError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)

Tensors = Mapping[str, NDArray[Any]]
State = dict[str, Any]


def to_json(value: Any) -> str:
    """The one way we write JSON: sorted keys, no NaN."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


def to_line(value: dict[str, Any]) -> bytes:
    """One line of a JSON lines file, its keys in their own order: people look at these."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def write_atomically(path: Path, content: bytes) -> None:
    """Write under a temporary name, reach the disk, then take the name: never half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)  # of a killed process that had our number
    try:
        created = os.open(temporary, _OWN | os.O_WRONLY | os.O_CREAT | os.O_EXCL, _READABLE_BY_ALL)
        with open(created, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # the name that people know
        raise
    _reach_the_disk(path.parent)


def is_temporary(path: Path) -> bool:
    """Whether a file has a name that `write_atomically` uses until it is done."""
    return path.name.startswith(".") and path.suffix.removeprefix(".").isdecimal()


def refuse_links(folder: Path) -> None:
    """Refuse a folder with anything in it, at any depth, that is neither a file nor a folder.

    Whoever gave us the folder could otherwise have us read, empty or overwrite files elsewhere.
    """
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda one: one.name)
    except OSError as error:
        raise InvalidRun(f"{folder} cannot be read: {error.strerror}.") from error
    for entry in found:
        if entry.is_symlink():
            raise InvalidRun(
                f"{entry.path} is a symbolic link. Handrail follows none inside a run, where it "
                "could lead to files of yours: put what it points to in its place, or delete it."
            )
        if entry.is_dir(follow_symlinks=False):
            refuse_links(Path(entry.path))
        elif not entry.is_file(follow_symlinks=False):
            raise InvalidRun(_no_file(entry.path))


def read_file(path: Path, largest: int | None = None) -> bytes:
    """All bytes of a regular file: no pipe that never ends, no device.

    Raises:
        InvalidRun: if it is something else, or larger than it may be.
        OSError: if it cannot be read.
    """
    descriptor = os.open(path, _PLAIN | os.O_RDONLY)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise InvalidRun(_no_file(path))
        if largest is not None and about.st_size > largest:
            raise InvalidRun(f"{path} is damaged: it has more than {largest:,} bytes.")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def open_to_append(path: Path) -> BinaryIO:
    """A file that grows at its end, unbuffered; a link is not followed."""
    flags = _OWN | os.O_WRONLY | os.O_APPEND | os.O_CREAT
    descriptor = os.open(path, flags, _READABLE_BY_ALL)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidRun(_no_file(path))
    return open(descriptor, "ab", buffering=0)


def append(file: BinaryIO, content: bytes) -> None:
    """Write all of it, or fail: a disk that fills up takes a part without a word."""
    if file.write(content) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def only_process(folder: Path, doing: str) -> Iterator[None]:
    """Two processes that write into one folder would mix what they write.

    The operating system lets go of the lock when the process ends, however it ends.
    """
    lock = FileLock(folder / LOCK, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise InvalidRun(
            f"Another process is {doing} in {folder}. Wait for it, or stop it first."
        ) from None
    try:
        yield
    finally:
        lock.release()


def save_state(path: Path, tensors: Tensors, state: State) -> None:
    """Write tensors and a state into one file, atomically."""
    write_atomically(path, _pack(tensors, state))


def load_state(path: Path) -> tuple[dict[str, NDArray[Any]], State]:
    """Read them back, or `InvalidRun` if a single byte differs from what was written."""
    try:
        content = read_file(path, _LARGEST_STATE)
    except FileNotFoundError:
        raise InvalidRun(f"There is no file {path}.") from None
    except OSError as error:
        raise InvalidRun(f"{path} cannot be read: {error.strerror}.") from error
    try:
        tensors = load(content)
        state = json.loads(_metadata(content)[_KEY])
        digest = state.pop("sha256")
        same = digest == digest_of(tensors, state) and _pack(tensors, state) == content
    except _NOT_OURS as error:
        if path.suffix in _TEXTS:
            raise InvalidRun(
                f"{path} is a text, such as a constraint file, but what is asked for here is a run "
                "or a policy. Constraints are named by --constraints."
            ) from error
        raise InvalidRun(
            f"{path} is not a file that Handrail wrote, or it is damaged ({error})."
        ) from error
    if not same:
        raise InvalidRun(
            f"{path} was altered after it was written: its SHA-256 does not match. "
            "Use another checkpoint, or an unaltered copy."
        )
    return tensors, state


def write_sealed(path: Path, values: State) -> None:
    """Write plain values as JSON with their SHA-256, atomically."""
    write_atomically(path, seal(values))


def read_sealed(path: Path) -> State:
    """What `write_sealed` wrote, or `InvalidRun` if a single byte differs."""
    try:
        content = read_file(path, _LARGEST_SEALED)
    except OSError as error:
        raise InvalidRun(f"{path} cannot be read: {error.strerror}.") from error
    return unseal(content, path)


def unseal(content: bytes, path: Path) -> State:
    """What `seal` made, or `InvalidRun` if a single byte differs.

    Args:
        content: all of it.
        path: of the file that it is in.
    """
    try:
        values: State = json.loads(content)
        if not isinstance(values, dict) or "sha256" not in values:
            raise ValueError("it is not a file that Handrail sealed")
        del values["sha256"]
        sealed = seal(values)
    except RecursionError:
        raise InvalidRun(f"{path} is damaged: it is nested too deeply.") from None
    except ValueError as error:
        raise InvalidRun(f"{path} is damaged: {error}.") from error
    if sealed != content:
        raise InvalidRun(f"{path} was altered after it was written: its SHA-256 does not match.")
    return values


def seal(values: State) -> bytes:
    """Plain values as JSON with their SHA-256."""
    sealed = {**values, "sha256": hashlib.sha256(to_json(values).encode()).hexdigest()}
    return to_json(sealed).encode()


def check_format(state: State, path: Path) -> None:
    """Refuse files of another version of the format."""
    if state.get("format") != STATE_FORMAT:
        raise InvalidRun(
            f"{path} has format {state.get('format')!r}, but this version of Handrail reads format "
            f"{STATE_FORMAT}. Use the version that wrote it."
        )


def prefixed(prefix: str, tensors: Tensors) -> dict[str, NDArray[Any]]:
    """The same tensors under longer names."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def under(prefix: str, tensors: Tensors) -> dict[str, NDArray[Any]]:
    """The tensors whose names begin so, without it."""
    n = len(prefix)
    return {name[n:]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def tensor(
    tensors: Tensors, name: str, shape: tuple[int | None, ...], dtype: str = "float64"
) -> NDArray[Any]:
    """A tensor of a file, if it is there, has this shape (None: any length) and finite numbers."""
    found = tensors.get(name)
    if found is None:
        raise InvalidRun(f"There is no tensor {name!r}.")
    fits = len(shape) == found.ndim and all(
        expected in (None, length) for expected, length in zip(shape, found.shape, strict=True)
    )
    if not fits or found.dtype != np.dtype(dtype):
        expected = " × ".join("any" if one is None else str(one) for one in shape)
        raise InvalidRun(
            f"The tensor {name!r} is {found.dtype} of shape {found.shape}, but {dtype} of "
            f"{expected or 'no axes'} was expected."
        )
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise InvalidRun(f"The tensor {name!r} has numbers that are not finite.")
    return found


def _no_file(path: str | Path) -> str:
    return (
        f"{path} is not a regular file: a folder, a pipe or a device perhaps. Handrail reads and "
        "writes plain files alone."
    )


def _pack(tensors: Tensors, state: State) -> bytes:
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    sealed = {**state, "sha256": digest_of(arrays, state)}
    content: bytes = save(arrays, metadata={_KEY: to_json(sealed)})
    return content


def digest_of(tensors: Tensors, state: State) -> str:
    """SHA-256 of everything: names, types, shapes and bytes of the tensors, and the state."""
    digest = hashlib.sha256(to_json(state).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _metadata(content: bytes) -> dict[str, str]:
    """The metadata of a safetensors file, which its NumPy reader leaves out."""
    length = int.from_bytes(content[:8], "little")
    metadata: dict[str, str] = json.loads(content[8 : 8 + length])["__metadata__"]
    return metadata


def _reach_the_disk(folder: Path) -> None:
    """A rename is durable once its folder is; Windows opens no folders, and sees to that itself."""
    if not _FOLDERS_CAN_BE_OPENED:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
