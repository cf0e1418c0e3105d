"""Text in Markdown is shown as it is, and the page made from it needs nothing else."""

from __future__ import annotations

import re
from base64 import b64decode
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from paper.markdown import anchor, code, plain, to_html
from tests.support.page import Page


def png(width: int) -> bytes:
    buffer = BytesIO()
    Image.new("RGB", (width, 10)).save(buffer, "PNG")
    return buffer.getvalue()


def shown(markdown: str) -> Page:
    return Page(to_html(markdown, "A title", {}, 100.0))


@pytest.mark.parametrize(
    "text",
    [
        "a < b > c & d &amp; e",
        "<script>alert(1)</script> <b>bold</b>",
        "*stars* _underlines_ snake_case `ticks` ~~no~~ $x$",
        "[195, 200] [angle](of) ![not](a picture)",
        r"back\\slash \| pipe",
        "π(left) ≥ 0.95 ‘quoted’",
    ],
)
def test_text_is_shown_as_it_is(text: str) -> None:
    assert shown(plain(text)).text.strip().endswith(text)
    page = shown(f"| a |\n| --- |\n| {plain(text)} |")
    assert page.cells == [text]


@given(st.text(alphabet="ab1 .,:;()[]{}<>&*_`~$|\\!\"'/=^@%?", max_size=30))
def test_no_text_escapes_from_its_cell(text: str) -> None:
    page = shown(f"| a | b |\n| --- | --- |\n| {plain(f'x {text} x')} | last |")
    assert page.cells == [" ".join(f"x {text} x".split()), "last"]


def test_what_is_on_two_lines_is_put_on_one() -> None:
    assert plain("two\n  lines") == "two lines"
    assert code("two\n  lines") == "`two lines`"
    assert shown(code("a `tick`")).text.strip().endswith("a `tick`")


def test_anchors_are_those_of_github() -> None:
    assert anchor("Figure 4. Cartpole: scores <&> losses") == "figure-4-cartpole-scores--losses"
    assert anchor(r"Steps \| Q_learning\_") == "steps--q_learning_"
    page = shown("# One\n\n## Steps \\| Q_learning\\_\n\n[there](#steps--q_learning_)")
    assert page.values("id") == ["one", "steps--q_learning_"]
    assert page.values("href") == ["#steps--q_learning_"]


def test_html_in_markdown_is_text() -> None:
    html = to_html("<script>x</script>\n\n<!-- note --> [link](javascript:x)", "<T>", {}, 100.0)
    assert "<script" not in html
    assert "<!--" not in html
    assert "href" not in html
    assert "<title>&lt;T&gt;</title>" in html


def test_pictures_are_inside_and_as_large_as_they_were_drawn() -> None:
    images = {"figures/a.png": png(300), "figures/b.png": png(150)}
    html = to_html("![An *a*](figures/a.png)\n\n![B](figures/b.png)", "T", images, 150.0)
    drawn = [attributes for tag, attributes in Page(html).tags if tag == "img"]
    assert [(one["alt"], one["width"]) for one in drawn] == [("An a", "192"), ("B", "96")]
    for one, image in zip(drawn, images.values(), strict=True):
        head, data = str(one["src"]).split(",")
        assert head == "data:image/png;base64"
        assert b64decode(data, validate=True) == image
    assert not re.search(r"https?://|url\(|@import|<script|<link", html)


def test_a_picture_that_is_not_there_is_missed() -> None:
    with pytest.raises(KeyError, match=r"figures/a\.png"):
        to_html("![A](figures/a.png)", "T", {}, 150.0)
