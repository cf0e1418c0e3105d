"""The command line: parse, call, print."""

from handrail.cli.app import main

__all__ = [
    "main",
]
