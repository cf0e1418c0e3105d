"""Print the JSON Schema: python -m handrail.rulebook > docs/constraints.schema.json."""

from __future__ import annotations

import json

from handrail.rulebook.format import schema


def main() -> None:
    """Print it."""
    print(json.dumps(schema(), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
