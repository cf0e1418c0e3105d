"""Code is known by what it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cells.source import digest_of_source

_FIRST = 'def twice(x):\n    """Two."""\n    return 2 * x\n'
_REWORDED = '# About numbers.\ndef twice(x):\n    """Two times."""\n\n    return (2 * x)\n'
_CHANGED = _FIRST.replace("2 *", "3 *")


def _digest(source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / "package_of_test").mkdir(parents=True)
    (folder / "package_of_test" / "__init__.py").touch()
    (folder / "package_of_test" / "number.py").write_text(source)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(folder))
        digest_of_source.cache_clear()
        return digest_of_source(("package_of_test",))


def test_words_do_not_count_and_numbers_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {"first": _FIRST, "reworded": _REWORDED, "changed": _CHANGED}
    found = {
        name: _digest(source, tmp_path / name, monkeypatch) for name, source in sources.items()
    }
    assert found["first"] == found["reworded"] != found["changed"]
