"""Unsaved work, kept where a page that is closed, or a computer that goes down, cannot lose it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import final

from handrail._storage import write_atomically


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
