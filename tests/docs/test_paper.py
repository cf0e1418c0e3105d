"""The walk through the paper names tests and sections of the report that exist."""

from __future__ import annotations

import re

from paper.exhibits import EXHIBITS
from tests.support.paths import ROOT

TEXT = (ROOT / "docs" / "explanation" / "paper.md").read_text()


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 50
    for file, test in named:
        path = ROOT / "tests" / file
        assert path.exists(), file
        assert f"def {test}(" in path.read_text(), f"{file}::{test}"


def test_every_exhibit_of_the_paper_is_named() -> None:
    walk = TEXT.split("## From its first equation")[1].split("## Where we depart")[0]
    titles = {exhibit.title for exhibit in EXHIBITS}
    named = set(re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", walk)) - {"report"}
    of_that_name = {one.title for one in EXHIBITS if "double deep Q" in one.title}
    beyond = {one.title for one in EXHIBITS if not one.place}
    assert titles - named - of_that_name - beyond == set()
    assert {name for name in named if not any(name in title for title in titles)} == set()
