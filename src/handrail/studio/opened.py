"""What the page is opened on: a constraint file, one that comes with Handrail, a run, a policy.

Unsaved work on it is kept where neither a closed page nor a computer that goes down can lose it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePath
from typing import final

from handrail._storage import write_atomically
from handrail.errors import InvalidArgument, StorageFailure
from handrail.rulebook import Files, bundled, read_file
from handrail.studio.engine import Target
from handrail.studio.messages import ExportFormat

_POLICIES = (".zip", ".onnx", ".npz", ".safetensors")
_EXAMPLE = "cartpole"

# Endings of files that the policy can be written to, by what the page calls them.
EXPORTS: dict[ExportFormat, str] = {"onnx": ".onnx", "numpy": ".npz", "learner": ".safetensors"}


def state_folder() -> Path:
    """Where programs of this user keep what is neither a document nor a setting."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home()))
    else:
        base = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state"))
    return base / "handrail" / "studio"


@final
@dataclass(frozen=True)
class KeptWork:
    """Of one target.

    Attributes:
        path: of the file that keeps it.
        title: of what is being worked on.
    """

    path: Path
    title: str

    @classmethod
    def of(cls, what: str) -> KeptWork:
        """What names the target, such as the absolute path of its file."""
        digest = hashlib.sha256(what.encode()).hexdigest()[:24]
        return cls(state_folder() / f"{digest}.json", what)

    def write(self, text: str) -> None:
        """Keep a text; a disk that refuses is no reason to stop working."""
        content = {"of": self.title, "when": datetime.now().isoformat("T", "seconds"), "text": text}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, json.dumps(content).encode())
        except OSError:
            return

    def read(self) -> tuple[str, str] | None:
        """The text and when it was kept; None if there is none."""
        try:
            content = json.loads(self.path.read_bytes())
            text, when = content["text"], content["when"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return (text, when) if isinstance(text, str) and isinstance(when, str) else None

    def forget(self) -> None:
        """There is nothing unsaved any more."""
        self.path.unlink(missing_ok=True)


@final
class FileTaken(InvalidArgument):
    """A file that somebody else has written is replaced only if one says so."""


@final
@dataclass(frozen=True)
class Opened:
    """A target, and the one file that may be written.

    Attributes:
        target: what the mathematics works with.
        file: that is saved to.
        on_disk: what that file held when it was last read or written by us; None if it is not ours.
        kept: unsaved work of it.
    """

    target: Target
    file: Path
    on_disk: str | None
    kept: KeptWork

    @classmethod
    def of(cls, given: str | None, constraints: str | None, out: Path | None) -> Opened:
        """What somebody has named on the command line.

        Args:
            given: a path or a bundled name; None for an example.
            constraints: the file of a policy that does not carry its own.
            out: where to save; by default the file itself, else its name in the present folder.
        """
        named = _EXAMPLE if given is None else given
        policy = _policy(named)
        if policy is None:
            _refuse_idle(constraints)
            text, name, files = _read(named)
        else:
            text, name, files = _read(constraints) if constraints else _constraints_of(policy)
        own = Path(named) if Path(named).is_file() and policy is None else None
        file = out or own or Path(name if name.endswith(".yaml") else f"{name}.yaml")
        on_disk = text if own is not None and out is None else None
        identity = f"{file.resolve()}|{'' if policy is None else policy.resolve()}"
        return cls(Target(text, name, policy, files), file, on_disk, KeptWork.of(identity))

    def save(self, text: str, known: str | None, anyway: bool) -> None:
        """Write the file, unless somebody else has changed it since it was `known`.

        Raises:
            FileTaken: if somebody has.
            StorageFailure: if the disk refuses.
        """
        try:
            found = self.file.read_text(encoding="utf-8") if self.file.exists() else None
            if found is not None and found not in (known, text) and not anyway:
                raise FileTaken(
                    f"{self.file} exists and is not what was opened here: somebody else has "
                    "written it."
                )
            write_atomically(self.file, text.encode())
            self._write_arrays()
        except (OSError, UnicodeDecodeError) as error:
            raise StorageFailure(f"{self.file} cannot be written: {error}.") from error

    def _write_arrays(self) -> None:
        """Those that a run or an exported policy has kept, where the text looks for them."""
        files = self.target.files
        for name, content in files.items() if isinstance(files, Mapping) else ():
            path = self.file.parent / name
            # Whoever wrote the names could otherwise have us write elsewhere.
            is_beside = not PurePath(name).is_absolute() and ".." not in PurePath(name).parts
            if is_beside and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, content)

    @property
    def runs(self) -> Path:
        """Where trainings of this file leave their runs, as `handrail train` does beside it."""
        return self.file.parent / "runs"

    def export_path(self, format: ExportFormat) -> Path:
        """Beside the file, with its name: nothing of the page is part of it."""
        return self.file.with_name(f"{self.file.stem}{EXPORTS[format]}")


def _policy(named: str) -> Path | None:
    """The path of a run or of a policy's file; None if it is a constraint file."""
    path = Path(named)
    if path.is_dir() or path.suffix in _POLICIES:
        return path
    if not path.is_file() and path.suffix not in (".yaml", ".yml", "") and named not in bundled():
        raise InvalidArgument(
            f"{named} is no constraint file, run, model (.zip), exported policy (.onnx, .npz) or "
            "learner (.safetensors)."
        )
    return None


def _read(given: str) -> tuple[str, str, Files]:
    """The text of a constraint file, what messages call it, and where its array files are."""
    return (*read_file(given), Path(given).parent)


def _constraints_of(policy: Path) -> tuple[str, str, Files]:
    """The same of what a run or an exported policy carries."""
    from handrail.runs import open_policy  # noqa: PLC0415  (waits for torch)

    book = open_policy(policy, "The studio shows one policy").rulebook
    if book is not None:
        return book.text, f"{book.name if policy.is_dir() else policy.stem}.yaml", book.arrays
    raise InvalidArgument(
        f"What must the policy of {policy} obey, and what are its observations called? Give a "
        "constraint file: --constraints FILE."
    )


def _refuse_idle(constraints: str | None) -> None:
    if constraints is not None:
        raise InvalidArgument(
            "--constraints is for a policy that carries none; here the constraint file itself was "
            "given."
        )
