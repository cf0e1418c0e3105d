"""Certificates inside the files of the policies that they are about.

In a .safetensors of a learner as an entry of its state, in a .zip of Stable-Baselines3 as a member
of its own, which its loader passes over; exports have theirs in their metadata. Whoever saves the
policy again leaves it behind, as it is about the weights that were proven.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from handrail._storage import load_state, read_file, save_state, write_atomically
from handrail.errors import InvalidArgument, InvalidRun
from handrail.export import open_export

_ENTRY, _MEMBER = "certificate", "handrail_certificate.json"

# Bytes of a model that is read whole, and of a certificate in it, unpacked.
_LARGEST, _LARGEST_CERTIFICATE = 2**31, 2**24


def carries_certificates(path: Path) -> bool:
    """Whether one may be in such a file, by its ending."""
    return path.suffix in _READERS


def certificate_in(path: Path) -> bytes:
    """The certificate in a file, as `handrail.proof.sealed_certificates` wrote it.

    Empty if there is none.
    """
    return _READERS[path.suffix](path)


def carry_certificate(path: Path, certificate: bytes) -> None:
    """Put a certificate into the file that it is about; one that is there is replaced."""
    check_carrier(path)
    _WRITERS[path.suffix](path, certificate)


def check_carrier(path: Path) -> None:
    """Refuse a file that no certificate can be put into."""
    if path.suffix not in _WRITERS:
        raise InvalidArgument(
            f"A certificate cannot be put inside {path}, only inside {' or '.join(_WRITERS)}. "
            "Exports get theirs when they are written: handrail export … --prove."
        )


def _of_learner(path: Path) -> bytes:
    found = load_state(path)[1].get(_ENTRY, "")
    if not isinstance(found, str):
        raise InvalidRun(f"{path} is damaged: its certificate is no text.")
    return found.encode()


def _into_learner(path: Path, certificate: bytes) -> None:
    tensors, state = load_state(path)
    save_state(path, tensors, {**state, _ENTRY: certificate.decode()})


def _of_model(path: Path) -> bytes:
    try:
        with zipfile.ZipFile(BytesIO(_content(path))) as archive:
            if _MEMBER not in archive.namelist():
                return b""
            if archive.getinfo(_MEMBER).file_size > _LARGEST_CERTIFICATE:
                raise InvalidRun(f"{path} is damaged: its certificate is too long for one.")
            return archive.read(_MEMBER)
    except zipfile.BadZipFile as error:
        raise InvalidRun(f"{path} is not a model of Stable-Baselines3: {error}") from error


def _into_model(path: Path, certificate: bytes) -> None:
    packed = BytesIO()
    with (
        zipfile.ZipFile(BytesIO(_content(path))) as before,
        zipfile.ZipFile(packed, "w") as after,
    ):
        for member in before.infolist():
            if member.filename != _MEMBER:
                after.writestr(member, before.read(member))
        after.writestr(_MEMBER, certificate)
    write_atomically(path, packed.getvalue())


def _content(path: Path) -> bytes:
    try:
        return read_file(path, _LARGEST)
    except OSError as error:
        raise InvalidRun(f"{path} cannot be read: {error.strerror or error}.") from error


def _of_export(path: Path) -> bytes:
    return open_export(path).certificate


_READERS: dict[str, Callable[[Path], bytes]] = {
    ".safetensors": _of_learner,
    ".zip": _of_model,
    ".onnx": _of_export,
    ".npz": _of_export,
}

_WRITERS: dict[str, Callable[[Path, bytes], None]] = {
    ".safetensors": _into_learner,
    ".zip": _into_model,
}
