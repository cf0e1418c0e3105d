"""The command line: parse, call, print."""

from handrail.cli.commands import main

__all__ = ["main"]
