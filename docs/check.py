"""Runs every Python example of the docs and checks that every relative link leads somewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")


def pages() -> list[Path]:
    """The README and every page of the docs."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def run_examples(page: Path) -> int:
    """Run the page's Python blocks one after the other in one namespace; how many there were."""
    namespace: dict[str, object] = {"__name__": "example"}
    text = page.read_text()
    blocks = list(_BLOCK.finditer(text))
    for block in blocks:
        # Blank lines in front, so that a traceback shows the line of the page.
        line = text[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], str(page), "exec"), namespace)
    return len(blocks)


def broken_links(page: Path) -> list[str]:
    """Relative links to files or headings that do not exist."""
    broken = []
    for target, anchor in _LINK.findall(page.read_text()):
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and anchor[1:] not in _anchors(file)):
            broken.append(f"{page.relative_to(ROOT)}: {target}{anchor}")
    return broken


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings}


def main() -> int:
    """Check all pages."""
    broken = [link for page in pages() for link in broken_links(page)]
    for link in broken:
        print(f"broken link: {link}")
    for page in pages():
        print(f"{page.relative_to(ROOT)}: {run_examples(page)} examples ran")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
