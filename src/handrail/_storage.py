"""Files that are either whole or not there: tensors and a JSON state, no pickle.

One file is a safetensors file whose metadata holds the state. The state carries a SHA-256 of
everything, and what is loaded must serialise to the very bytes that were read, so no altered byte
goes unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from handrail.errors import InvalidRun

STATE_FORMAT = 1  # of what a state contains; raised when older files can no longer be understood
LOCK = ".lock"
_LARGEST_SEALED = 2**24  # bytes: certificates of thousands of constraints are smaller
_KEY = "handrail"
_FOLDERS_CAN_BE_OPENED = os.name != "nt"

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
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _reach_the_disk(path.parent)


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
        content = path.read_bytes()
    except FileNotFoundError:
        raise InvalidRun(f"There is no file {path}.") from None
    except OSError as error:
        raise InvalidRun(f"{path} cannot be read: {error.strerror}.") from error
    try:
        tensors = load(content)
        state = json.loads(_metadata(content)[_KEY])
        digest = state.pop("sha256")
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidRun(
            f"{path} is not a file that Handrail wrote, or it is damaged ({error})."
        ) from error
    if digest != digest_of(tensors, state) or _pack(tensors, state) != content:
        raise InvalidRun(
            f"{path} was altered after it was written: its SHA-256 does not match. "
            "Use another checkpoint, or an unaltered copy."
        )
    return tensors, state


def write_sealed(path: Path, values: State) -> None:
    """Write plain values as JSON with their SHA-256, atomically."""
    write_atomically(path, _sealed(values))


def read_sealed(path: Path) -> State:
    """What `write_sealed` wrote, or `InvalidRun` if a single byte differs."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_SEALED + 1)
    except OSError as error:
        raise InvalidRun(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > _LARGEST_SEALED:
        raise InvalidRun(f"{path} is damaged: it has more than {_LARGEST_SEALED:,} bytes.")
    try:
        values: State = json.loads(content)
        if not isinstance(values, dict) or "sha256" not in values:
            raise ValueError("it is not a file that Handrail sealed")
        del values["sha256"]
        sealed = _sealed(values)
    except RecursionError:
        raise InvalidRun(f"{path} is damaged: it is nested too deeply.") from None
    except ValueError as error:
        raise InvalidRun(f"{path} is damaged: {error}.") from error
    if sealed != content:
        raise InvalidRun(f"{path} was altered after it was written: its SHA-256 does not match.")
    return values


def _sealed(values: State) -> bytes:
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
