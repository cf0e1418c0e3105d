"""The report as one HTML file that needs nothing else: pictures are inside, scripts are not."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from paper.exhibit import Finding, Picture, Table
from paper.report import NOT_IN_THE_PAPER, NOTICE, SYMBOLS, TITLE, Report, Section, numeric_columns

# Ids of our own begin with "report-", so that no exhibit's name meets them.
_TIMES = "report-time"
_ONE_LINE = 36  # characters
_PIXELS_PER_INCH = 96.0  # of CSS

_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1e21; --soft: #5b616b; --line: #d8dce2;
  --wash: #f5f6f8; --link: #0b57b0; --good: #14602f; --good-wash: #dff3e5; --odd: #7a4300;
  --odd-wash: #fdeccb; --open: #4a505a; --open-wash: #e8eaee }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #15171a; --ink: #e4e6ea;
  --soft: #a2a9b4; --line: #363b43; --wash: #1e2125; --link: #8ab8ff; --good: #8fe0a8;
  --good-wash: #16351f; --odd: #ffc870; --odd-wash: #40290a; --open: #c3c8d0;
  --open-wash: #2d3138 } }
* { box-sizing: border-box }
body { font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  color: var(--ink); background: var(--paper); max-width: 70rem; margin: 0 auto;
  padding: 1.5rem 1.25rem 4rem; overflow-wrap: break-word }
h1 { font-size: clamp(1.5rem, 1.1rem + 2vw, 2.25rem); line-height: 1.2; text-wrap: balance }
h2 { font-size: 1.4rem; line-height: 1.25; margin: 0 0 .25rem }
section { border-top: 1px solid var(--line); margin-top: 2.5rem; padding-top: 1.5rem;
  scroll-margin-top: .5rem }
a { color: var(--link) }
p, dd, figcaption { max-width: 48rem }
p { margin: .5rem 0 1rem }
code { font: .92em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
.soft, figcaption { color: var(--soft) }
.notice { border-left: .3rem solid var(--odd); background: var(--odd-wash); padding: .75rem 1rem }
figure { margin: 1.5rem 0 }
figure img { display: block; max-width: 100%; height: auto; background: #fff; padding: .5rem;
  border: 1px solid var(--line); border-radius: .4rem; margin-bottom: .5rem }
figcaption { font-size: .92rem }
/* A shade at the right where more can be scrolled to; the first gradient hides it at the end. */
.scroll { overflow-x: auto; margin-top: .4rem; background:
  linear-gradient(to left, var(--paper) 50%, transparent) right / 3rem 100% no-repeat local,
  linear-gradient(to left, var(--line), transparent) right / 1.25rem 100% no-repeat scroll }
.scroll thead th { min-width: 5rem }
table { border-collapse: collapse; font-size: .94rem; font-variant-numeric: tabular-nums }
th, td { padding: .4rem .75rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line) }
thead th { background: var(--wash); vertical-align: bottom; border-bottom: 2px solid var(--line) }
tbody th { font-weight: 500 }
.scroll td, .scroll tbody th { white-space: nowrap }
.scroll tbody .words { white-space: normal; min-width: 12rem }
.right { text-align: right }
.badge { display: inline-block; white-space: nowrap; font-size: .85rem; font-weight: 600;
  padding: .05rem .55rem; border: 1px solid currentColor; border-radius: 1rem }
.agrees { color: var(--good); background: var(--good-wash) }
.differs { color: var(--odd); background: var(--odd-wash) }
.not-judged { color: var(--open); background: var(--open-wash); border-style: dashed }
.counts { line-height: 2 }
.headline { width: 100% }
.headline thead th:first-child { width: 15% }
.finding { border: 1px solid var(--line); border-radius: .5rem; padding: .8rem 1rem;
  margin: 1rem 0; max-width: 56rem }
dl { display: grid; grid-template-columns: 6rem 1fr; gap: .3rem 1rem; margin: .6rem 0 0 }
dt { color: var(--soft) }
dd { margin: 0; min-width: 0 }
@media (max-width: 40rem) {
  .headline, .headline tbody, .headline tr, .headline th, .headline td { display: block }
  .headline thead { display: none }
  .headline tbody th, .headline td { border: 0; padding: .15rem 0 }
  .headline tr { border-bottom: 1px solid var(--line); padding: .6rem 0 }
  .headline td[data-label]::before { content: attr(data-label) ": "; color: var(--soft) }
  dl { grid-template-columns: 1fr; gap: 0 }
  dd { margin-bottom: .4rem }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt }
  figure, .finding, tr { break-inside: avoid }
  h2 { break-after: avoid }
  .scroll { overflow: visible }
  .badge { print-color-adjust: exact; -webkit-print-color-adjust: exact }
  a { color: inherit }
}
"""


def to_html(report: Report, images: Mapping[str, bytes]) -> str:
    """The whole page.

    Args:
        report: what was found.
        images: a PNG for every picture, by its name.
    """
    sections = "\n".join(_section(report, one, images) for one in report.sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(TITLE)}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>{escape(TITLE)}</h1>
{_introduction(report)}
</header>
<main>
{_headline(report)}
{_contents(report)}
{sections}
{_times(report)}
</main>
</body>
</html>
"""


def _introduction(report: Report) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    notice = f'<p class="notice"><strong>Cut down.</strong> {escape(NOTICE)}</p>'
    return (
        f"<p>Written by <code>{escape(report.command)}</code> on {escape(report.date)}, from "
        f"{report.total_time} of computing, all cores together. "
        f'<span class="soft">Versions: {escape(versions)}.</span></p>'
        f"{'' if report.full else notice}"
    )


def _headline(report: Report) -> str:
    """All findings at a glance; nothing if there are none."""
    if not report.findings:
        return ""
    counts = " ".join(_badge(verdict, f": {n}") for verdict, n in report.counts.items())
    rows = "\n".join(
        f'<tr><th scope="row"><a href="#{escape(section.exhibit.name)}">{escape(section.where)}'
        f'</a></th><td data-label="Claim">{escape(finding.claim)}</td>'
        f'<td data-label="Measured">{escape(finding.measured)}</td>'
        f"<td>{_badge(report.verdict(finding))}</td></tr>"
        for section, finding in report.findings
    )
    head = _head(("Where", "Claim", "Measured", "Verdict"), [""] * 4)
    return f"""<section>
<h2>Findings</h2>
<p class="counts">{counts}</p>
<table class="headline">{head}
<tbody>
{rows}
</tbody></table>
</section>"""


def _contents(report: Report) -> str:
    entries = [(one.exhibit.name, one.heading) for one in report.sections]
    items = "\n".join(
        f'<li><a href="#{escape(name)}">{escape(heading)}</a></li>'
        for name, heading in [*entries, (_TIMES, "How long it took")]
    )
    return f"<section>\n<h2>Contents</h2>\n<nav><ul>\n{items}\n</ul></nav>\n</section>"


def _section(report: Report, section: Section, images: Mapping[str, bytes]) -> str:
    exhibit, content = section.exhibit, section.content
    parts = [
        *(_picture(picture, images[picture.name]) for picture in content.pictures),
        *(_table(table) for table in content.tables),
        *(_finding(report, finding) for finding in content.findings),
    ]
    body = "\n".join(parts)
    return f"""<section id="{escape(exhibit.name)}">
<h2>{escape(exhibit.title)}</h2>
<p class="soft">{escape(exhibit.place or NOT_IN_THE_PAPER.capitalize())}</p>
{body}
</section>"""


def _picture(picture: Picture, png: bytes) -> str:
    caption, data = escape(picture.caption), b64encode(png).decode()
    # As large as it was drawn, however many pixels it has: so its letters fit those of the page.
    width = round(picture.figure.get_figwidth() * _PIXELS_PER_INCH)
    return (
        f'<figure><img src="data:image/png;base64,{data}" width="{width}" alt="{caption}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    classes = [
        _class(right, [row[column] for row in table.rows])
        for column, right in enumerate(numeric_columns(table))
    ]
    return _scrollable(table.caption, table.header, table.rows, classes)


def _class(right: bool, cells: Sequence[str]) -> str:
    """Of a column: only sentences may wrap, numbers and names are kept on one line."""
    if right:
        return ' class="right"'
    return ' class="words"' if any(len(cell) > _ONE_LINE for cell in cells) else ""


def _scrollable(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[str]], classes: Sequence[str]
) -> str:
    """A table that scrolls by itself where the screen is too narrow, by keyboard, too."""
    lines = "\n".join(_row(row, classes) for row in rows)
    label = escape(caption)
    return f"""<figure><figcaption>{label}</figcaption>
<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table>
{_head(header, classes)}
<tbody>
{lines}
</tbody></table></div></figure>"""


def _head(header: Sequence[str], classes: Sequence[str]) -> str:
    cells = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>'
        for name, kind in zip(header, classes, strict=True)
    )
    return f"<thead><tr>{cells}</tr></thead>"


def _row(row: Sequence[str], classes: Sequence[str]) -> str:
    first, *others = row
    cells = "".join(
        f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(others, classes[1:], strict=True)
    )
    return f'<tr><th scope="row"{classes[0]}>{escape(first)}</th>{cells}</tr>'


def _finding(report: Report, finding: Finding) -> str:
    parts = (("Claim", finding.claim), ("Measured", finding.measured), ("Remark", finding.why))
    said = "".join(f"<dt>{what}</dt><dd>{escape(text)}</dd>" for what, text in parts if text)
    return f'<div class="finding">{_badge(report.verdict(finding))}<dl>{said}</dl></div>'


def _badge(verdict: str, more: str = "") -> str:
    kind = verdict.replace(" ", "-")
    return f'<span class="badge {kind}">{SYMBOLS[verdict]} {verdict}{more}</span>'


def _times(report: Report) -> str:
    rows = [*report.times, ("all", "", report.total_time)]
    table = _scrollable(
        "Computing time of each experiment, all its seeds together.",
        ("Experiment", "What it is", "Time"),
        rows,
        ["", ' class="words"', ' class="right"'],
    )
    return f'<section id="{_TIMES}">\n<h2>How long it took</h2>\n{table}\n</section>'
