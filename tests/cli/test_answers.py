"""Answers that were written down beforehand."""

from __future__ import annotations

import pytest

import handrail as hr
from handrail.cli.answers import ENVIRONMENTS, SCHEMA, answer, make_answers


@pytest.mark.parametrize("name", [SCHEMA, ENVIRONMENTS])
def test_what_was_written_down_is_what_the_library_says(name: str) -> None:
    assert answer(name) == make_answers()[name], "out of date, run: python docs/reference_pages.py"


def test_names_of_files_do_not_reach_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    one = hr.rulebook.Overview("a\x1b[31m", "[/] <script>", "CartPole-v1", 3, 1, None)
    monkeypatch.setattr(hr.rulebook, "overviews", lambda: [one])
    expected = "a\\x1b[31m: CartPole-v1, 3 states, 1 region\n  [/] <script>\n"
    assert make_answers()[ENVIRONMENTS] == expected
