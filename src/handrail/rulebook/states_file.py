"""States in a file of their own: `where: {states: frames.npy}`.

A constraint file names array files beside it; whoever keeps its text (a run, an export) keeps these
with it, and reads them from there. Nothing in an array file is executed: objects, which are
pickles, are refused, and so is what is too large, by its header alone.
"""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path, PurePath
from typing import TypeAlias, final

import numpy as np
from numpy.lib import format as npy

from handrail._types import Array
from handrail.errors import InvalidConstraint
from handrail.rulebook.declared_observations import DeclaredObservations, shape_in_words
from handrail.rulebook.findings import did_you_mean

# In all constraints of a file together: 160 MB.
MAX_NUMBERS = 20_000_000
_MAX_BYTES = 8 * MAX_NUMBERS + 100_000

_ENDINGS = (".npy", ".npz")
_KINDS = "biuf"  # of NumPy: booleans, whole numbers, floats

# Where array files are: in a folder, or their contents by the names that the file has for them.
Files: TypeAlias = str | Path | Mapping[str, bytes]


@final
class ArrayFiles:
    """The array files that a constraint file names, each read once.

    Args:
        files: where they are.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._read: dict[str, bytes] = {}

    @property
    def contents(self) -> Mapping[str, bytes]:
        """Of those that were asked for so far: what the file's constraints rely on."""
        return dict(self._read)

    def states(self, reference: str, observations: DeclaredObservations) -> Array:
        """(n, n_observations) of the array that is referred to; `InvalidConstraint` if it is none.

        Args:
            reference: `frames.npy`, or `frames.npz` with one array, or `frames.npz:name`.
            observations: as the file declares them.
        """
        file, _, member = reference.partition(":")
        if PurePath(file).suffix not in _ENDINGS:
            raise InvalidConstraint(
                f"states are in a file that ends with .npy (numpy.save) or .npz, but got {file!r}."
            )
        if PurePath(file).is_absolute():
            raise InvalidConstraint(
                f"{file} is an absolute path, which leads nowhere on another machine. Write it "
                "relative to the constraint file."
            )
        if file not in self._read:
            self._read[file] = self._content(file)
        content = self._read[file]
        if PurePath(file).suffix == ".npz":
            content = _of_archive(content, file, member)
        elif member:
            raise InvalidConstraint(
                f"{file} holds one array, which has no name. Leave out :{member}."
            )
        return _flat_states(_array(content, reference), reference, observations)

    def _content(self, file: str) -> bytes:
        if isinstance(self._files, Mapping):
            if file not in self._files:
                raise InvalidConstraint(
                    f"{file} was not kept with this constraint file. Use the original one, with "
                    f"{file} beside it."
                )
            return self._files[file]
        return _read_beside(Path(self._files), file)


def digests(contents: Mapping[str, bytes]) -> dict[str, str]:
    """SHA-256 of every array file, by its name."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def _read_beside(folder: Path, file: str) -> bytes:
    path = folder / file
    if not path.exists():
        others = [one.name for ending in _ENDINGS for one in path.parent.glob(f"*{ending}")]
        raise InvalidConstraint(
            f"there is no file {path}. Put it there (its path is relative to the constraint file): "
            f'numpy.save("{file}", states).{did_you_mean(path.name, others)}'
        )
    if not path.is_file():  # a pipe may never end
        raise InvalidConstraint(f"{path} is no file.")
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise InvalidConstraint(
                f"{file} has {size:,} bytes, and at most {_MAX_BYTES:,} are read. Keep fewer "
                "states."
            )
        return path.read_bytes()
    except OSError as error:
        raise InvalidConstraint(f"{path} cannot be read: {error.strerror}.") from error


def _of_archive(content: bytes, file: str, member: str) -> bytes:
    """The one array of an .npz file, or that of a name, as an .npy file."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            names = [one.removesuffix(".npy") for one in archive.namelist()]
            if member not in names and (member or len(names) != 1):
                raise InvalidConstraint(
                    f"{file} holds {_counted_arrays(names)}. Say which one: "
                    f"{file}:{names[0] if names else 'name'}.{did_you_mean(member, names)}"
                )
            chosen = archive.infolist()[names.index(member) if member else 0]
            if chosen.file_size > _MAX_BYTES:
                raise InvalidConstraint(
                    f"{file} unpacks to {chosen.file_size:,} bytes, and at most {_MAX_BYTES:,} are "
                    "read. Keep fewer states."
                )
            return archive.read(chosen)
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise InvalidConstraint(
            f"{file} is no .npz file, or it is damaged ({error}). Write it with numpy.savez."
        ) from error


def _counted_arrays(names: Sequence[str]) -> str:
    return f"{len(names)} arrays ({', '.join(names)})" if names else "no array"


def _array(content: bytes, reference: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """What an .npy file holds, if that is numbers; its header is looked at before its data."""
    stream = BytesIO(content)
    try:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read_header(stream)
    except (ValueError, EOFError) as error:
        raise InvalidConstraint(
            f"{reference} is no array file of NumPy ({error}). Write it with numpy.save."
        ) from error
    if dtype.kind not in _KINDS:
        what = "objects, which are programs to NumPy" if dtype.hasobject else f"{dtype}"
        raise InvalidConstraint(
            f"{reference} holds {what}. States are numbers: floats, or whole numbers such as the "
            "uint8 of images."
        )
    if math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise InvalidConstraint(
            f"{reference} is damaged: an array of shape {shape} and {dtype} has "
            f"{math.prod(shape) * dtype.itemsize:,} bytes, but this one "
            f"{len(content) - stream.tell():,}. Write it again with numpy.save."
        )
    array: np.ndarray[tuple[int, ...], np.dtype[np.generic]] = np.load(
        BytesIO(content), allow_pickle=False
    )
    return array


def _flat_states(
    array: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
    reference: str,
    observations: DeclaredObservations,
) -> Array:
    """(n, n_observations), of an array (n, *observation_shape)."""
    expected = observations.shape
    # Of named numbers, an array may have the axes that the environment has: row by row, as named.
    fits = array.shape[1:] == expected or (
        observations.names and math.prod(array.shape[1:]) == observations.count
    )
    if array.ndim < 2 or not len(array) or not fits:
        one = " One state is an array of one: state[None]." if array.shape == expected else ""
        raise InvalidConstraint(
            f"{reference} holds {array.dtype} numbers of shape {array.shape}, but states of this "
            f"file have the shape (n, {', '.join(map(str, expected))}): n states, at least one, of "
            f"{_said(observations)}.{one}{_transposed(array.shape, expected)}"
        )
    return array.reshape(len(array), -1).astype(np.float64)


def _said(observations: DeclaredObservations) -> str:
    if observations.names:
        return f"the {observations.count} observations that it names"
    return f"{shape_in_words(observations.shape)} numbers, as `observations` says"


def _transposed(found: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """What to do about channels at the other end."""
    if len(expected) != 3 or len(found) != 4:
        return ""
    if (found[3], *found[1:3]) == expected:
        return " Put the channels first: numpy.moveaxis(states, -1, 1)."
    return (
        " Put the channels last: numpy.moveaxis(states, 1, -1)."
        if (*found[2:], found[1]) == expected
        else ""
    )
