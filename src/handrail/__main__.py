"""`python -m handrail`: the command line, where its script is not on the path."""

from __future__ import annotations

from handrail.cli import main

main()
