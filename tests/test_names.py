"""The rules for names, so that the tree is a map: a module is a noun, and as long as its idea.

A rule that is in the way of something good may get an exception here, with its reason.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import typer.main

import handrail as hr
from handrail.cli.app import app
from tests.support.paths import ROOT, TESTS

LIBRARY = ROOT / "src" / "handrail"
TREES = (LIBRARY, ROOT / "paper", ROOT / "benchmarks")
PACKAGES = sorted(file.parent for file in LIBRARY.glob("*/__init__.py"))

NOUNS = {"drawing", "learning", "settings"}  # that look like gerunds
BOTH_NEEDED: dict[frozenset[str], str] = {}  # names that differ in grammar only
ON_THEIR_OWN: dict[str, str] = {  # small modules with a single importer
    "src/handrail/sb3/keeper.py": "the callback is about when, this about what",
    "src/handrail/sb3/acting_network.py": "what torch counts is no matter of when to hold",
    "src/handrail/sb3/pressure.py": "a pull at every step of an optimiser is no matter of holding",
    "src/handrail/sb3/experience.py": "the callback need not know how models remember",
    "src/handrail/tangent/few_gradients.py": "whole gradients of few, beside factors of many",
    "src/handrail/learning/lookout.py": "which few states tell is a matter of its own",
}
ELSEWHERE_INSTALLED = "it needs what only `make test-rllib` installs"
ELSEWHERE = {  # commands that are in the module of another, which they belong to
    **dict.fromkeys(("environments", "schema", "version"), "app"),
    **{"resume": "train", "verify": "prove", "studio": "show"},
}
ABOUT_MORE = {  # tests that are not about one module
    "test_names.py": "every module",
    "test_portability.py": "every module",
    "cli/test_json.py": "every command",
    "cli/test_wheel.py": "the command line as it is installed",
    "docs/test_examples.py": "the examples",
    "docs/test_paper.py": "docs/explanation/paper.md",
    "fuzz/test_certificates.py": "files of certificates, from reading to proving again",
    "fuzz/test_rulebooks.py": "files of constraints, from reading to the terminal",
    "rulebook/test_limits.py": "sizes that are refused, wherever a file says them",
    "cli/test_shaped_observations.py": "boards and the like, by every verb and command",
    "cli/test_branches.py": "branches of actions, by every verb and command",
    "sb3/test_normalised_parts.py": "VecNormalize around a Dict",
    "cli/test_normalised_observations.py": "models and their statistics, by every command",
    "rllib/test_docs.py": "what the docs say of handrail.rllib",
    "fuzz/test_runs.py": "folders of runs, from opening to learning on",
    "rulebook/test_others.py": "`others` and `any`, from the file to what acts",
    "sb3/test_algorithms.py": "the tables of docs/guides/algorithms.md",
    "rulebook/test_parts.py": "observations in parts, from the file to what acts",
    "runs/test_kills.py": "every command that writes, killed",
}


def modules(folder: Path) -> list[Path]:
    """Those of a folder, without what Python itself names."""
    return sorted(file for file in folder.glob("*.py") if not file.stem.startswith("__"))


FOLDERS = sorted({file.parent for tree in TREES for file in tree.rglob("*.py")})
MODULES = [file for folder in FOLDERS for file in modules(folder)]
OURS = [file for file in MODULES if LIBRARY in file.parents]


def path(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def dotted(file: Path) -> str:
    return ".".join(file.relative_to(LIBRARY.parent).with_suffix("").parts)


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def classes(file: Path) -> list[str]:
    return [node.name for node in tree(file).body if isinstance(node, ast.ClassDef)]


def stem(name: str) -> str:
    """Without what grammar adds: evaluate, evaluating, evaluations, evaluator are one word."""
    endings = r"(?:ations?|ating|ators?|ates?|ments?|ings?|ions?|ers?|ors?|ied|ies|ed|es|y|s|e)$"
    return "_".join(re.sub(endings, "", word) or word for word in name.strip("_").split("_"))


@pytest.mark.parametrize("file", MODULES, ids=path)
def test_a_module_is_a_noun(file: Path) -> None:
    head = file.stem.split("_")[-1]
    is_odd = re.search(r"(?:ings?|ed)$", head) and head not in NOUNS
    assert not is_odd or head.removesuffix("s").capitalize() in classes(file), (
        "name it after its class or function"
    )


def test_no_two_modules_differ_in_grammar_only() -> None:
    """But a package and its main class, and commands, which are called what users type."""
    named = {file.stem.strip("_") for file in OURS if file.parent.name != "cli"}
    forms = defaultdict(set)
    for name in named | {package.name for package in PACKAGES}:
        forms[stem(name)].add(name)
    for package in PACKAGES:
        if any(stem(file.stem) == stem(package.name) for file in modules(package)):
            forms[stem(package.name)].discard(package.name)
    alike = [names for names in forms.values() if len(names) > 1]
    assert [names for names in alike if frozenset(names) not in BOTH_NEEDED] == []


@pytest.mark.parametrize("package", PACKAGES, ids=path)
def test_a_module_is_not_called_like_a_name_of_its_face(package: Path) -> None:
    """Or `import a.b` and `from a import b` would mean different things."""
    face = set(pytest.importorskip(dotted(package), reason=ELSEWHERE_INSTALLED).__all__)
    assert face & {file.stem for file in modules(package)} == set()
    assert [name for name in face if name.startswith("_")] == []
    assert inspect.ismodule(getattr(hr, package.name, hr))


def test_no_two_classes_share_a_name() -> None:
    counted = Counter(name for file in OURS for name in classes(file))
    assert [name for name, count in counted.items() if count > 1] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=path)
def test_siblings_may_be_many_and_strangers_may_not(folder: Path) -> None:
    found = modules(folder)
    if len(found) > 15:  # a small package need not be imported, which takes what it needs
        strangers = [file.stem for file in found if not is_sibling(file)]
        assert len(strangers) <= 15, strangers


def is_sibling(file: Path) -> bool:
    """Whether a class of it derives from an abstract one of another module of its package."""
    if file not in OURS:
        return False
    members = inspect.getmembers(importlib.import_module(dotted(file)), inspect.isclass)
    bases = {base for _, one in members if one.__module__ == dotted(file) for base in one.__mro__}
    elsewhere = [base for base in bases if base.__module__ != dotted(file)]
    package = dotted(file.parent) + "."
    return any(inspect.isabstract(one) and one.__module__.startswith(package) for one in elsewhere)


def test_the_map_is_small() -> None:
    assert len(modules(LIBRARY)) <= 9  # LAPACK is below the solver and the metric, which need it
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert 0 < max(len(contract.get("layers", ())) for contract in linter["contracts"]) <= 14


def test_a_small_part_of_one_module_is_no_module() -> None:
    importers = defaultdict(set)
    for file in LIBRARY.rglob("*.py"):
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ImportFrom):
                for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names)):
                    importers[name].add(file.stem)
    for file in OURS:
        alone = len(importers[dotted(file)]) == 1 and importers[dotted(file)] != {"__init__"}
        n_lines = len(file.read_text(encoding="utf-8").splitlines())
        if alone and n_lines < 100 and file.parent.name != "cli":
            assert path(file) in ON_THEIR_OWN, f"{path(file)}: {importers[dotted(file)]}"


def test_a_test_is_named_after_its_module() -> None:
    for test in TESTS.rglob("test_*.py"):
        inside = test.relative_to(TESTS)
        name = test.stem.removeprefix("test_")
        homes = (LIBRARY / inside.parent, ROOT / inside.parent)
        called = (f"{name}.py", f"_{name}.py", f"__{name}__.py")
        found = any((home / one).exists() for home in homes for one in (*called, name))
        assert found or inside.as_posix() in ABOUT_MORE, f"{inside}: there is no such module"


def test_a_commands_module_has_its_name() -> None:
    for name in typer.main.get_group(app).commands:
        file = LIBRARY / "cli" / f"{ELSEWHERE.get(name, name)}.py"
        assert name in {node.name for node in tree(file).body if isinstance(node, ast.FunctionDef)}
