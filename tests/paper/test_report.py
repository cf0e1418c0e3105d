"""The report of a reproduction: as a page, as Markdown, on a terminal."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from io import BytesIO, StringIO
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from paper.exhibit import Content, Exhibit, Finding, Picture, Table
from paper.markdown import anchor, to_markdown
from paper.page import to_html
from paper.report import NOTICE, TITLE, Report, Section, in_units, numeric_columns
from tests.docs.test_check import check

VOID = {"meta", "img"}


def draw(color: str) -> Figure:
    figure = Figure(figsize=(3, 2))
    figure.subplots().plot([0, 1], [1, 0], color=color)
    return figure


def png(figure: Figure) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=30)
    return buffer.getvalue()


def section(name: str, place: str, title: str, content: Content) -> Section:
    return Section(Exhibit(name, place, title, lambda _: content), content)


SCORES = Table(
    "Scores | <mean> & spread",
    ("Method", "Last 100", "Passes\nby", "a|b"),
    (
        ("exact", "197.0 ± 1.6", "7", "x|y"),
        ("<none>", "92.1 ± 13.2", "never", 'say "no"'),
        ("half", "150 [140, 160]", "12", r"back\slash|"),
    ),
)
PICTURES = (
    Picture("curves", draw("red"), 'Scores < 200 & "safe"'),
    Picture("angle", draw("blue"), "An [angle](of) *attack* over\ntwo lines"),
)
FINDINGS = (
    Finding("Solved in <5 episodes & safe", "In 4 [3, 5] | all seeds", True),
    Finding('The loss "vanishes" | stays', "It falls by 40 'only'", False, "Frozen & <b>fixed</b>"),
    Finding("Q-learning is\nslower than [bold]this[/bold]", "Twice, p < 0.05", None, "Few seeds"),
    Finding("A proof holds" + ", and another one does" * 9, "On 98 % of *all* cells", True),
)
REPORT = Report(
    command="handrail reproduce all",
    date="2025-06-01",
    versions={"handrail": "0.1.0", "torch": "2.6.0"},
    seconds={"short": 41.2, "long_one": 17_211.0},
    experiments={"short": "A <short> | one", "long_one": "Lunar Lander"},
    full=True,
    sections=(
        section(
            "figure4",
            "Figure 4",
            "Cartpole: scores <&> losses",
            Content(FINDINGS[:2], PICTURES[:1], (SCORES,)),
        ),
        section("table2", "Table 2", "Steps | Q_learning_", Content(FINDINGS[2:3])),
        section("proofs", "", "Contents", Content(FINDINGS[3:], PICTURES[1:])),
    ),
)
IMAGES = {picture.name: png(picture.figure) for picture in PICTURES}


class Page(HTMLParser):
    """Reads a page, and refuses one whose tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("td", "dd"):
            self.cells.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if "style" not in self.open else ""
        if {"td", "dd"} & set(self.open):
            self.cells[-1] += data

    def values(self, attribute: str) -> list[str]:
        found = (attributes.get(attribute) for _, attributes in self.tags)
        return [value for value in found if value is not None]


def rows_of(markdown: str) -> list[list[list[str]]]:
    """The cells of every table; a | after a backslash is not the end of one."""
    blocks = [b.splitlines() for b in markdown.split("\n\n") if b.startswith("| ")]
    return [[re.split(r"(?<!\\)\|", line)[1:-1] for line in block] for block in blocks]


def unescaped(text: str) -> str:
    return re.sub(r"\\([^\w\s])", r"\1", text)


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_page_carries_its_pictures_and_needs_nothing_else() -> None:
    text = to_html(REPORT, IMAGES)
    page = Page(text)
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert [image["alt"] for image in images] == [picture.caption for picture in PICTURES]
    for image, picture in zip(images, PICTURES, strict=True):
        head, data = str(image["src"]).split(",")
        assert head == "data:image/png;base64"
        assert b64decode(data, validate=True) == IMAGES[picture.name]
    assert len(page.values("src")) == len(PICTURES)
    assert not re.search(r"https?://|url\(|@import|<script|<link", text)


def test_every_link_of_the_page_leads_to_one_place_of_it() -> None:
    page = Page(to_html(REPORT, IMAGES))
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {"figure4", "table2", "proofs"} <= set(ids)
    links = page.values("href")
    # Once for each finding, once in the contents, which also has the times.
    assert len(links) == len(FINDINGS) + len(REPORT.sections) + 1
    assert {link.removeprefix("#") for link in links} == set(ids)


def test_the_page_says_everything_as_it_was_written() -> None:
    text = to_html(REPORT, IMAGES)
    page = Page(text)
    for finding in FINDINGS:
        for part in (finding.claim, finding.measured):
            # In the headline table and in its section.
            assert page.cells.count(part) == text.count(escape(part)) == 2
    assert "Frozen & <b>fixed</b>" in page.cells
    assert "<b>" not in text
    for row in SCORES.rows:
        assert row[0] in page.text
        assert set(row[1:]) <= set(page.cells)
    for said in (TITLE, "handrail reproduce all", "2025-06-01", "torch 2.6.0", "4 h 48 min"):
        assert said in page.text
    assert "Not in the paper" in page.text


def test_numbers_are_aligned_right() -> None:
    assert numeric_columns(SCORES) == [False, True, True, False]
    right = [a for tag, a in Page(to_html(REPORT, IMAGES)).tags if a.get("class") == "right"]
    assert len(right) == 2 * (1 + len(SCORES.rows)) + (1 + len(REPORT.seconds) + 1)


def test_a_table_of_other_widths_than_its_header_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        numeric_columns(Table("Ragged", ("a", "b"), (("1",),)))


@pytest.mark.parametrize("full", [True, False])
def test_what_was_cut_down_says_so_and_judges_nothing(full: bool) -> None:
    report = replace(REPORT, full=full)
    counts = {"agrees": 2, "differs": 1, "not judged": 1}
    if not full:
        counts = {"agrees": 0, "differs": 0, "not judged": 4}
    assert report.counts == counts
    page, markdown = Page(to_html(report, IMAGES)).text, to_markdown(report, "pictures")
    for text in (page, markdown):
        assert (NOTICE in text) is not full
        for verdict, symbol in (("agrees", "✓"), ("differs", "≠"), ("not judged", "–")):
            # In the headline table and in a section; and once before the number of them.
            assert text.count(f"{symbol} {verdict}") == 2 * counts[verdict] + 1
            assert f"{symbol} {verdict}: {counts[verdict]}" in text


def test_tables_of_the_markdown_are_whole() -> None:
    tables = rows_of(to_markdown(REPORT, "pictures"))
    assert [len(table) for table in tables] == [2 + len(FINDINGS), 2 + len(SCORES.rows), 2 + 3]
    for table in tables:
        assert {len(row) for row in table} == {len(table[0])}
    headline, scores, times = tables
    for row, finding in zip(headline[2:], FINDINGS, strict=True):
        said = [unescaped(cell.strip()) for cell in row[1:3]]
        assert said == [one_line(finding.claim), one_line(finding.measured)]
    written = [[unescaped(cell.strip()) for cell in row] for row in scores[2:]]
    assert written == [list(row) for row in SCORES.rows]
    assert [cell.strip() for cell in scores[1]] == ["---", "---:", "---:", "---"]
    assert [row[2].strip() for row in times[2:]] == ["4 h 47 min", "41 s", "**4 h 48 min**"]


def test_links_of_the_markdown_lead_somewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = to_markdown(REPORT, "pictures")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    (tmp_path / "report.md").write_text(text)
    missing = [f"report.md: pictures/{picture.name}.png" for picture in PICTURES]
    assert check.broken_links(tmp_path / "report.md") == missing
    (tmp_path / "pictures").mkdir()
    for name, image in IMAGES.items():
        (tmp_path / "pictures" / f"{name}.png").write_bytes(image)
    assert check.broken_links(tmp_path / "report.md") == []
    # An exhibit is called "Contents", too: the anchors still differ.
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert len({anchor(heading) for heading in headings}) == len(headings)
    assert len(re.findall(r"\]\(#", text)) == len(FINDINGS) + len(REPORT.sections) + 1


def test_the_markdown_is_tidy_and_shows_text_as_it_is() -> None:
    text = to_markdown(REPORT, "pictures/")
    assert text.endswith("|\n")
    assert not re.search(r"[ \t]$", text, re.MULTILINE)
    assert r"![An \[angle\]\(of) \*attack\* over two lines](pictures/angle.png)" in text
    assert r"Frozen & \<b>fixed\</b>" in text
    assert "\n## Table 2. Steps \\| Q_learning\\_\n" in text


def test_a_report_without_findings_has_no_table_of_them() -> None:
    bare = section("bare", "Figure 1", "Nothing to say", Content())
    report = replace(REPORT, sections=(bare,))
    assert "Verdict" not in to_html(report, {}) + to_markdown(report, "pictures")
    assert "Verdict" in to_html(REPORT, IMAGES)


@pytest.mark.parametrize("width", [160, 60])
def test_the_terminal_shows_every_claim_in_full(width: int) -> None:
    stream = StringIO()
    Console(file=stream, width=width).print(REPORT.table())
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    rows = [[""] * 4]
    for line in lines:
        if line.startswith("├"):
            rows.append([""] * 4)
        elif line.startswith("│"):
            cells = line.split("│")[1:-1]
            rows[-1] = [a + "".join(b.split()) for a, b in zip(rows[-1], cells, strict=True)]
    # Without spaces, since a narrow terminal breaks long words.
    said = [[one.where, finding.claim, finding.measured] for one, finding in REPORT.findings]
    assert [row[:3] for row in rows[1:]] == [["".join(t.split()) for t in row] for row in said]
    assert [row[3] for row in rows[1:]] == ["✓agrees", "≠differs", "–notjudged", "✓agrees"]
    assert "✓ agrees: 2, ≠ differs: 1, – not judged: 1" in lines[-1]


def test_verdicts_are_coloured() -> None:
    stream = StringIO()
    console = Console(file=stream, width=160, force_terminal=True, color_system="standard")
    console.print(REPORT.table())
    assert "\x1b[32m✓ agrees" in stream.getvalue()
    assert "\x1b[33m≠ differs" in stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.04, "0.0 s"),
        (3.21, "3.2 s"),
        (9.97, "10 s"),
        (59.6, "1 min 00 s"),
        (61.0, "1 min 01 s"),
        (3599.7, "1 h 00 min"),
        (17_211.0, "4 h 47 min"),
    ],
)
def test_seconds_in_units(seconds: float, said: str) -> None:
    assert in_units(seconds) == said
