"""`python -m handrail.cli`."""

from handrail.cli import main

main()
