"""What other machines must have."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.errors import InvalidArgument
from handrail.executors import provision
from handrail.executors.provision import (
    module_files,
    refuse_missing,
    refuse_other_versions,
    versions_here,
)


def test_other_versions_are_named_with_ours() -> None:
    refuse_other_versions(versions_here(), "A machine")
    there = {**versions_here(), "numpy": "1.0"}
    del there["torch"]
    with pytest.raises(InvalidArgument) as refusal:
        refuse_other_versions(there, "A machine")
    here = versions_here()
    assert str(refusal.value) == (
        f"A machine has torch not at all (here: {here['torch']}), numpy 1.0 (here: "
        f"{here['numpy']}). Other versions compute other numbers: install the same ones there as "
        "here."
    )


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_travelling_module.py").write_text("import my_travelling_helper\n")
    (tmp_path / "my_travelling_helper.py").write_text("import my_travelling_package.part\n")
    (tmp_path / "never_loaded.py").write_text("1 / 0\n")
    package = tmp_path / "my_travelling_package"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__pycache__" / "old.pyc").write_bytes(b"")
    for name in ("__init__.py", "part.py", "table.csv"):
        (package / name).write_text("\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_modules_are_sent_with_what_they_load_beside_them(modules: Path) -> None:
    assert sorted(module_files(["my_travelling_module"])) == [
        "my_travelling_helper.py",
        "my_travelling_module.py",
        "my_travelling_package/__init__.py",
        "my_travelling_package/part.py",
        "my_travelling_package/table.csv",
    ]


def test_what_is_installed_stays() -> None:
    assert module_files(["gymnasium", "json", "sys"]) == {}
    assert module_files([]) == {}


def test_too_much_is_refused(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provision, "_MOST", 10)
    with pytest.raises(InvalidArgument, match="my_travelling_module: the files to send along have"):
        module_files(["my_travelling_module"])


def test_what_is_missing_is_named_with_its_extra() -> None:
    refuse_missing("numpy", "none")
    with pytest.raises(InvalidArgument, match=r"pip install 'handrail\[ray\]'"):
        refuse_missing("no_such_package", "ray")
