"""Faces that load their names when these are asked for."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import handrail as hr

FACES = ["handrail", "handrail.rulebook"]
HEAVY = {"torch", "scipy", "gymnasium", "matplotlib"}


def imported_for_type_checkers(face: str) -> dict[str, str]:
    """Names and the modules that they are imported from, in the order of the face."""
    tree = ast.parse(Path(str(importlib.import_module(face).__file__)).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    found = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name  # exported
            found[alias.name] = str(node.module)
    return found


@pytest.mark.parametrize("face", FACES)
def test_type_checkers_and_the_interpreter_see_the_same_names(face: str) -> None:
    module = importlib.import_module(face)
    written = imported_for_type_checkers(face)
    assert set(module.__all__) - {"__version__"} == set(written)
    assert dir(module) == sorted(module.__all__)
    for name, home in written.items():
        # That of a package is the package itself.
        expected = getattr(importlib.import_module(home), name)
        assert getattr(module, name) is expected


@pytest.mark.parametrize("face", FACES)
def test_a_name_that_there_is_not(face: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{face}' has no attribute 'nothing'"):
        getattr(importlib.import_module(face), "nothing")  # noqa: B009  # type checkers know


def test_the_version_is_that_of_the_distribution() -> None:
    assert hr.__version__ == "0.1.0"


@pytest.mark.parametrize(
    "code",
    [
        "import handrail; dir(handrail)",
        "from handrail.rulebook import bundled, json_schema; json_schema(); bundled()",
        "from handrail.rulebook import overviews; overviews()",
        "from handrail.rulebook import read_value; read_value('1e-4')",
        "from handrail.settings import RunSettings; RunSettings(seed=3)",
        "from handrail.errors import HandrailError",
    ],
)
def test_what_needs_no_network_does_not_wait_for_one(code: str) -> None:
    told = f"{code}; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=60
    )
    assert "handrail" in done.stdout.split()
    assert not HEAVY & set(done.stdout.split())
