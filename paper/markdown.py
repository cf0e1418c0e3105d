"""Markdown in GitHub's flavour: text put into it as it is, and a page of HTML made from it."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from html import escape
from itertools import pairwise

from markdown_it import MarkdownIt

# Backslashes, not entities: those would become letters of a heading's anchor.
_SPECIAL = re.compile(r"[\\`*\[\]<|~$]|&(?=#?\w+;)|(?<!\w)_|_(?!\w)|(?<=\])\(")
_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882 }
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 70rem; margin: 0 auto;
  padding: 1.5rem 1.25rem 4rem; overflow-wrap: break-word }
h1, h2 { line-height: 1.25; text-wrap: balance }
h2 { border-top: 1px solid var(--line); margin-top: 2.5rem; padding-top: 1.5rem }
p, li { max-width: 48rem }
blockquote { border-left: .3rem solid #c70; background: var(--soft); margin: 1rem 0;
  padding: 1px 1rem }
img { display: block; max-width: 100%; height: auto; background: #fff;
  border: 1px solid var(--line) }
table { display: block; overflow-x: auto; border-collapse: collapse; font-size: .94rem;
  font-variant-numeric: tabular-nums }
th, td { padding: .4rem .75rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line) }
th { background: var(--soft); vertical-align: bottom }
@media print { body { max-width: none; padding: 0; font-size: 10pt }
  img, tr { break-inside: avoid } }
"""


def plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


def code(text: str) -> str:
    """The same in the letters of code."""
    return plain(text) if "`" in text else f"`{' '.join(text.split())}`"


def anchor(heading: str) -> str:
    """What GitHub calls a heading, which is what docs/check.py looks for."""
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


def to_html(markdown: str, title: str, images: Mapping[str, bytes], dots_per_inch: float) -> str:
    """One page that needs nothing else: pictures are inside, scripts are not.

    Args:
        markdown: whatever HTML it contains is shown as text.
        title: of the page.
        images: a PNG for every picture, by the path that the Markdown has.
        dots_per_inch: at which they were drawn; they are shown as large as they were meant to be.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(markdown)
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", anchor(content.content))
        for image in (child for child in content.children or () if child.type == "image"):
            png = images[str(image.attrGet("src"))]
            image.attrSet("src", f"data:image/png;base64,{b64encode(png).decode()}")
            image.attrSet("width", f"{96.0 / dots_per_inch * _pixels(png):.0f}")  # inches of CSS
    body = parser.renderer.render(tokens, parser.options, {})
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
{body}</body>
</html>
"""


def _pixels(png: bytes) -> int:
    """The width that the header of a PNG states."""
    return int.from_bytes(png[16:20], "big")
