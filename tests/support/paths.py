"""Where the tests find the project and its data."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).parent
TESTS = SUPPORT.parent
ROOT = TESTS.parent
GOLDEN = SUPPORT / "golden"
DATA = SUPPORT / "data"
