"""The version, which saved runs name."""

from __future__ import annotations

VERSION = "0.1.0"
