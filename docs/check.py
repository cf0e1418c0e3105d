"""Runs every Python example of the docs, and checks that links and names lead somewhere."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")
_FILE = re.compile(r"(?<![\w./-])[\w][\w./-]*\.(?:py|md)\b")
_FOLDER = re.compile(r"(?<![\w./-])(?:docs|tests|src|paper|benchmarks|examples)/[\w./-]*\w")
_NAME = re.compile(r"(?<![\w./-])(?:hr|handrail)(?:\.\w+)+")
_TREES = ("src", "paper", "benchmarks", "examples", "docs", "tests")


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


def is_runnable(page: Path) -> bool:
    """Whether all that the page's examples need is installed here (RLlib: `make test-rllib`)."""
    return all(map(is_installed, re.findall(r"^from (handrail\.\w+)", page.read_text(), re.M)))


@cache
def is_installed(module: str) -> bool:
    """Whether what a module of ours needs is here, too."""
    try:
        import_module(module)
    except ModuleNotFoundError:
        return False
    return True


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


def sources() -> list[Path]:
    """The library's modules and bundled files, whose comments cite files and names."""
    return sorted(file for file in (ROOT / "src").rglob("*") if file.suffix in (".py", ".yaml"))


def unknown_names(text: str) -> list[str]:
    """Files, folders and names of handrail that a text mentions and that do not exist."""
    text = _LINK.sub("]()", text)  # links are looked at on their own
    mentioned = {match for pattern in (_FILE, _FOLDER) for match in pattern.findall(text)}
    unknown = [name for name in mentioned if not _is_file(name)]
    unknown += [name for name in set(_NAME.findall(text)) if not _is_name(name)]
    return sorted(unknown)


def _is_file(name: str) -> bool:
    """Whether a file or a folder of the repository is called so, or ends so."""
    return (ROOT / name).exists() or any(file.endswith(f"/{name}") for file in _files())


@cache
def _files() -> frozenset[str]:
    return frozenset(
        f"/{file.relative_to(ROOT).as_posix()}"
        for tree in _TREES
        for file in (ROOT / tree).rglob("*")
    )


def _is_name(name: str) -> bool:
    """Whether the dotted name is a module, or an attribute of one."""
    parts = ["handrail", *name.split(".")[1:]]
    modules = [n for n in range(1, len(parts) + 1) if _is_module(".".join(parts[:n]))]
    module = ".".join(parts[: max(modules)])
    if not is_installed(module):
        return True  # there is the module, and its names are looked up where it works
    value: object = import_module(module)
    for part in parts[max(modules) :]:
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def findings() -> Iterator[str]:
    """Whatever leads nowhere."""
    for page in pages():
        yield from (f"broken link: {link}" for link in broken_links(page))
    for file in (*pages(), *sources()):
        for name in unknown_names(file.read_text(encoding="utf-8")):
            yield f"no such file or name: {file.relative_to(ROOT)}: {name}"


def main() -> int:
    """Check all pages."""
    broken = list(findings())
    print("\n".join(broken))
    for page in pages():
        ran = f"{run_examples(page)} examples ran" if is_runnable(page) else "needs more than this"
        print(f"{page.relative_to(ROOT)}: {ran}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
