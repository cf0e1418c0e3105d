"""The reference is what the docstrings say now, and names everything."""

from __future__ import annotations

import pytest

import handrail as hr
from tests.support.paths import ROOT
from tests.support.scripts import load_script

reference = load_script("docs/reference_pages.py")
PAGES = reference.pages()


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert written == PAGES[name], "out of date, run: python docs/reference_pages.py"


def test_every_package_has_a_page() -> None:
    packages = {file.parent.name for file in (ROOT / "src" / "handrail").glob("*/__init__.py")}
    assert packages - {*reference.ELSEWHERE} <= {name.removesuffix(".md") for name in PAGES}


def test_every_public_name_is_there() -> None:
    missing = [name for name in hr.__all__ if f"`hr.{name}`" not in PAGES["handrail.md"]]
    assert [name for name in missing if f"{name}.md" not in PAGES] == ["__version__"]


def test_what_is_called_comes_first_with_its_arguments() -> None:
    page = PAGES["enforcement.md"]
    for earlier, later in (("### `enforce`", "### `Enforcement`"), ("## `hr.…`", "### `update`")):
        assert page.index(earlier) < page.index(later)
    assert "\n    prove: bool = False,\n" in page
    assert "- `policy`: changed in place; left exactly as it was on failure.\n" in page
    assert "- `.iterations`: Linearisations that were needed.\n" in page
    # What pydantic checks is said in words; a type is shown as it is written.
    assert "    discount: float = 0.99,\n" in PAGES["settings.md"]
    assert "Annotated" not in "".join(PAGES[name] for name in PAGES if name.endswith(".md"))


def test_every_command_has_its_options() -> None:
    page = PAGES["cli.md"]
    assert "## `handrail train`\n\n```\nhandrail train [OPTIONS]" in page
    assert "- `--seeds`: " in page
