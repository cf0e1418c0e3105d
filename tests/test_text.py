"""Text from elsewhere, made safe to show."""

from __future__ import annotations

import pytest

from handrail._text import html_text, text_table, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("push right: ≥ 0.95 · φ̇", "push right: ≥ 0.95 · φ̇"),
        ("two\nlines", "two\nlines"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\tb\rc\x07\x7f\x9b", r"a\tb\rc\x07\x7f\x9b"),
        ("\u202eesrever\u2066", r"\u202eesrever\u2066"),
        ("[/] <script> $x$ :smile:", "[/] <script> $x$ :smile:"),
    ],
)
def test_what_a_terminal_would_obey_is_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


def test_a_page_shows_neither_orders_nor_markup() -> None:
    assert html_text('<b>&\x1b[2J\u202e"</b>') == (r"&lt;b&gt;&amp;\x1b[2J\u202e&quot;&lt;/b&gt;")


def test_a_table_of_text() -> None:
    table = text_table(["name", "n"], [["long\x1bname", "1"], ["b", "200"]])
    assert table.splitlines() == [
        "        name    n",
        "────────────  ───",
        r"long\x1bname    1",
        "           b  200",
    ]
