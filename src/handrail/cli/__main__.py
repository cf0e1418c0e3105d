"""`python -m handrail.cli`."""

from __future__ import annotations

from handrail.cli.app import main

main()
