"""Nothing in the library assumes Unix: read from the sources, so that it fails on every system."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[1] / "src").rglob("*.py"))
UNIX_ONLY = {"fcntl", "pwd", "grp", "resource", "termios", "pty", "posix"}
UNIX_CALLS = {
    "fork",
    "forkpty",
    "getuid",
    "geteuid",
    "chown",
    "mkfifo",
    "killpg",
    "wait",
    "waitpid",
}
TEXT_METHODS = {"open", "read_text", "write_text"}

Check = Callable[[ast.AST], Iterator[str]]


def modules_of_unix(node: ast.AST) -> Iterator[str]:
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    yield from (f"imports {one}" for one in names if one.partition(".")[0] in UNIX_ONLY)


def calls_of_unix(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id == "os" and node.attr in UNIX_CALLS:
            yield f"uses os.{node.attr}"
        if node.value.id == "signal" and node.attr in {"SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1"}:
            yield f"uses signal.{node.attr}"


def processes_that_fork(node: ast.AST) -> Iterator[str]:
    """The default way to start a process is another one on every system: say `spawn`."""
    if not isinstance(node, ast.Call):
        return
    name = ast.unparse(node.func)
    if name in {"multiprocessing.Process", "multiprocessing.Pool", "Process", "Pool"}:
        yield f"starts a process by {name} instead of a context"
    if name.endswith("get_context") and [ast.unparse(one) for one in node.args] != ["'spawn'"]:
        yield "has another context than spawn"
    if name.endswith("ProcessPoolExecutor") and "context" not in ast.unparse(node):
        yield "has a ProcessPoolExecutor without a context"


def joined_by_slashes(node: ast.AST) -> Iterator[str]:
    """`f"{folder}/{name}"`, `folder + "/"`, `path.split("/")` and names from the root."""
    if isinstance(node, ast.JoinedStr):
        for one, following in zip(node.values, node.values[1:], strict=False):
            text = following.value if isinstance(following, ast.Constant) else ""
            if isinstance(one, ast.FormattedValue) and str(text).startswith("/"):
                yield f"joins by a slash: {ast.unparse(node)}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [one.value for one in (node.left, node.right) if isinstance(one, ast.Constant)]
        if any(isinstance(one, str) and one.strip("/") != one for one in sides):
            yield f"joins by a slash: {ast.unparse(node)}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        slash = [one for one in node.args if isinstance(one, ast.Constant) and one.value == "/"]
        if node.func.attr in {"split", "rsplit", "partition", "rpartition", "join"} and slash:
            yield f"takes a path apart by hand: {ast.unparse(node)}"
    places = ("/tmp", "/dev", "/proc", "/home", "/usr")
    if isinstance(node, ast.Constant) and str(node.value).startswith(places):
        yield f"names a place of Unix: {node.value!r}"


def texts_without_an_encoding(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    given = {keyword.arg for keyword in node.keywords}
    if name not in TEXT_METHODS or "encoding" in given:
        return
    if name == "open":
        owner = ast.unparse(node.func).rpartition(".")[0]
        modes = [one.value for one in node.args if isinstance(one, ast.Constant)]
        modes += [k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)]
        if owner in {"os", "Image", "Run", "webbrowser"} or any("b" in str(one) for one in modes):
            return
    yield f"reads or writes a text without an encoding: {ast.unparse(node)}"


CHECKS: list[Check] = [
    modules_of_unix,
    calls_of_unix,
    processes_that_fork,
    joined_by_slashes,
    texts_without_an_encoding,
]


def found_in(source: str, check: Check) -> list[str]:
    return [finding for node in ast.walk(ast.parse(source)) for finding in check(node)]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_library_assumes_no_system(check: Check) -> None:
    assert SOURCES
    found = [
        f"{path.name}: {finding}"
        for path in SOURCES
        for finding in found_in(path.read_text(encoding="utf-8"), check)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("check", "source"),
    [
        (modules_of_unix, "import fcntl"),
        (modules_of_unix, "from fcntl import flock"),
        (calls_of_unix, "child = os.fork()"),
        (calls_of_unix, "os.kill(child, signal.SIGKILL)"),
        (processes_that_fork, "multiprocessing.Process(target=f).start()"),
        (processes_that_fork, "multiprocessing.get_context('fork')"),
        (processes_that_fork, "ProcessPoolExecutor(2)"),
        (joined_by_slashes, "path = f'{folder}/{name}'"),
        (joined_by_slashes, "path = folder + '/metrics.jsonl'"),
        (joined_by_slashes, "name = str(path).split('/')[-1]"),
        (joined_by_slashes, "open('/tmp/x', 'rb')"),
        (texts_without_an_encoding, "open(path)"),
        (texts_without_an_encoding, "path.open('w')"),
        (texts_without_an_encoding, "path.read_text()"),
        (texts_without_an_encoding, "path.write_text(text)"),
    ],
)
def test_the_checks_find_what_they_are_for(check: Check, source: str) -> None:
    assert len(found_in(source, check)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "path = folder / 'metrics.jsonl'",
        "path.open('rb')",
        "path.read_text(encoding='utf-8')",
        "os.open(folder, os.O_RDONLY)",
        "tag = f'handrail/{key}'",
        "ratio = a / b",
        "context = multiprocessing.get_context('spawn')",
        "ProcessPoolExecutor(2, context)",
    ],
)
def test_the_checks_find_nothing_else(source: str) -> None:
    assert not [finding for check in CHECKS for finding in found_in(source, check)]


_WITHOUT_FCNTL = """
import sys
sys.modules["fcntl"] = None  # as on Windows
import handrail
for name in handrail.__all__:
    getattr(handrail, name)
"""


def test_everything_is_imported_without_fcntl() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _WITHOUT_FCNTL], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
