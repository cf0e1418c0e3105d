"""The report of a reproduction: on a terminal, as Markdown, as a page."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import replace
from io import BytesIO, StringIO
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from paper.exhibit import Claim, Content, Drawing, Exhibit, Finding, Table
from paper.markdown import anchor
from paper.report import (
    NOTICE,
    SYMBOLS,
    TITLE,
    Report,
    Section,
    in_units,
    numeric_columns,
    report_page,
    to_markdown,
)
from tests.docs.test_check import check
from tests.support.page import Page


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
DRAWINGS = (
    Drawing("curves", draw("red"), 'Scores < 200 & "safe"'),
    Drawing("angle", draw("blue"), "An [angle](of) *attack* over\ntwo lines"),
)
CLAIMS = (
    Claim("Solved in <5 episodes & safe", "In 4 [3, 5] | all seeds", True),
    Claim('The loss "vanishes" | stays', "It falls by 40 'only'", False, "Frozen & <b>fixed</b>"),
    Claim("Q-learning is\nslower than [bold]this[/bold]", "Twice, p < 0.05", None, "Few seeds"),
    Claim("A proof holds" + ", and another one does" * 9, "On 98 % of *all* cells", True),
)
OURS = Finding("Exact [from] the start", "worst violation < 1e-6 | all", "Enforced & <proven>")
REPORT = Report(
    command="python -m paper all",
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
            Content(CLAIMS[:2], (), DRAWINGS[:1], (SCORES,)),
        ),
        section("table2", "Table 2", "Steps | Q_learning_", Content(CLAIMS[2:3])),
        section("proofs", "", "Contents", Content(CLAIMS[3:], [OURS], DRAWINGS[1:])),
    ),
)
IMAGES = {f"figures/{drawing.name}.png": png(drawing.figure) for drawing in DRAWINGS}


def html(report: Report = REPORT) -> str:
    return report_page(to_markdown(report), IMAGES)


def rows_of(markdown: str) -> list[list[list[str]]]:
    """The cells of every table; a | after a backslash is not the end of one."""
    blocks = [b.splitlines() for b in markdown.split("\n\n") if b.startswith("| ")]
    return [[re.split(r"(?<!\\)\|", line)[1:-1] for line in block] for block in blocks]


def unescaped(text: str) -> str:
    return re.sub(r"\\([^\w\s])", r"\1", text)


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_page_carries_its_drawings() -> None:
    page = Page(html())
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert [image["alt"] for image in images] == [one_line(one.caption) for one in DRAWINGS]
    for image, drawing in zip(images, DRAWINGS, strict=True):
        data = str(image["src"]).removeprefix("data:image/png;base64,")
        assert b64decode(data, validate=True) == IMAGES[f"figures/{drawing.name}.png"]


def test_every_link_of_the_page_leads_to_one_place_of_it() -> None:
    page = Page(html())
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    links = page.values("href")
    # Once for each claim and what is ours, once in the contents, which also has the times.
    assert len(links) == len(CLAIMS) + 1 + len(REPORT.sections) + 1
    assert {link.removeprefix("#") for link in links} <= set(ids)


def test_the_page_says_everything_as_it_was_written() -> None:
    text = html()
    page = Page(text)
    for said in (*CLAIMS, OURS):
        for part in (said.text, said.measured):
            # In the headline table and in its section.
            assert page.text.count(one_line(part)) == 2
            assert one_line(part) in page.cells
    assert "Frozen & <b>fixed</b>" in page.text
    assert "<b>" not in text
    for row in SCORES.rows:
        assert set(row) <= set(page.cells)
    for part in (TITLE, "python -m paper all", "2025-06-01", "torch 2.6.0", "4 h 48 min"):
        assert part in page.text
    assert "Not in the paper" in page.text


def test_numbers_are_aligned_right() -> None:
    assert numeric_columns(SCORES) == [False, True, True, False]
    right = [a for _, a in Page(html()).tags if a.get("style") == "text-align:right"]
    assert len(right) == 2 * (1 + len(SCORES.rows)) + (1 + len(REPORT.seconds) + 1)


def test_a_table_of_other_widths_than_its_header_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        numeric_columns(Table("Ragged", ("a", "b"), (("1",),)))


@pytest.mark.parametrize("full", [True, False])
def test_what_was_cut_down_says_so_and_judges_nothing(full: bool) -> None:
    report = replace(REPORT, full=full)
    counts = {"agrees": 2, "differs": 1, "undecided": 1} if full else {"not judged": 4}
    assert report.counts == counts
    page, markdown = Page(html(report)).text, to_markdown(report)
    for text in (page, markdown):
        assert (NOTICE in text) is not full
        for verdict, symbol in SYMBOLS.items():
            # In the headline table and in a section; and once before the number of them.
            times = 2 * counts[verdict] + 1 if verdict in counts else 0
            assert text.count(f"{symbol} {verdict}") == times
            if verdict in counts:
                assert f"{symbol} {verdict}: {counts[verdict]}" in text


def test_tables_of_the_markdown_are_whole() -> None:
    tables = rows_of(to_markdown(REPORT))
    assert [len(table) for table in tables] == [2 + len(CLAIMS), 3, 2 + len(SCORES.rows), 2 + 3]
    for table in tables:
        assert {len(row) for row in table} == {len(table[0])}
    headline, beyond, scores, times = tables
    assert [unescaped(cell.strip()) for cell in beyond[2][1:]] == [OURS.text, OURS.measured]
    for row, claim in zip(headline[2:], CLAIMS, strict=True):
        said = [unescaped(cell.strip()) for cell in row[1:3]]
        assert said == [one_line(claim.text), one_line(claim.measured)]
    written = [[unescaped(cell.strip()) for cell in row] for row in scores[2:]]
    assert written == [list(row) for row in SCORES.rows]
    assert [cell.strip() for cell in scores[1]] == ["---", "---:", "---:", "---"]
    assert [row[2].strip() for row in times[2:]] == ["4 h 47 min", "41 s", "**4 h 48 min**"]


def test_links_of_the_markdown_lead_somewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = to_markdown(REPORT)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    (tmp_path / "report.md").write_text(text)
    missing = [f"report.md: figures/{drawing.name}.png" for drawing in DRAWINGS]
    assert check.broken_links(tmp_path / "report.md") == missing
    (tmp_path / "figures").mkdir()
    for name, image in IMAGES.items():
        (tmp_path / name).write_bytes(image)
    assert check.broken_links(tmp_path / "report.md") == []
    # An exhibit is called "Contents", too: the anchors still differ.
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert len({anchor(heading) for heading in headings}) == len(headings)
    assert len(re.findall(r"\]\(#", text)) == len(CLAIMS) + 1 + len(REPORT.sections) + 1


def test_the_markdown_is_tidy_and_shows_text_as_it_is() -> None:
    text = to_markdown(REPORT)
    assert text.endswith("|\n")
    assert not re.search(r"[ \t]$", text, re.MULTILINE)
    assert r"![An \[angle\]\(of) \*attack\* over two lines](figures/angle.png)" in text
    assert r"Frozen & \<b>fixed\</b>" in text
    assert "\n## Table 2. Steps \\| Q_learning\\_\n" in text


def test_a_report_without_claims_has_no_table_of_them() -> None:
    bare = section("bare", "Figure 1", "Nothing to say", Content())
    report = replace(REPORT, sections=(bare,))
    assert "Findings" not in html(report) + to_markdown(report)
    assert "Findings" in html()


def test_what_is_ours_is_not_counted_among_the_papers_claims() -> None:
    ours = section("ours", "", "Beyond", Content(findings=[OURS]))
    report = replace(REPORT, sections=(ours,))
    assert sum(report.counts.values()) == 0
    text = to_markdown(report)
    assert "The paper's claims" not in text
    assert "Beyond what the paper claims:" in text
    assert "- **+ ours**\n  - What: Exact" in text


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
    said = [[one.where, claim.text, claim.measured] for one, claim in REPORT.claims]
    said += [[one.where, found.text, found.measured] for one, found in REPORT.findings]
    assert [row[:3] for row in rows[1:]] == [["".join(t.split()) for t in row] for row in said]
    verdicts = ["✓agrees", "≠differs", "?undecided", "✓agrees", "+ours"]
    assert [row[3] for row in rows[1:]] == verdicts
    caption = " ".join(" ".join(lines[-2:]).split())
    assert "The paper's claims: ✓ agrees: 2, ≠ differs: 1, ? undecided: 1" in caption


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
