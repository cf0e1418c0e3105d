"""The report as Markdown, in GitHub's flavour."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from paper.exhibit import Finding, Picture, Table
from paper.report import NOT_IN_THE_PAPER, NOTICE, SYMBOLS, TITLE, Report, Section, numeric_columns

_FINDINGS, _CONTENTS, _TIMES = "Findings", "Contents", "How long it took"
# Backslashes, not entities: those would become letters of a heading's anchor.
_SPECIAL = re.compile(r"[\\`*\[\]<|~$]|&(?=#?\w+;)|(?<!\w)_|_(?!\w)|(?<=\])\(")


def to_markdown(report: Report, image_folder: str) -> str:
    """The whole report, with its pictures as files of a folder.

    Args:
        report: what was found.
        image_folder: relative to the Markdown file; holds `<name of picture>.png`.
    """
    headings = _headings(report.sections)
    links = [f"#{anchor(heading)}" for heading in headings]
    blocks = [f"# {_plain(TITLE)}", _introduction(report)]
    if not report.full:
        blocks.append(f"> **Cut down.** {_plain(NOTICE)}")
    if report.findings:
        blocks += [f"## {_FINDINGS}", _counts(report), _headline(report, links)]
    blocks += [f"## {_CONTENTS}", _contents(headings, links)]
    for section, heading in zip(report.sections, headings, strict=True):
        blocks += [f"## {heading}", *_section(report, section, image_folder)]
    blocks += [f"## {_TIMES}", _times(report)]
    return "\n\n".join(blocks) + "\n"


def anchor(heading: str) -> str:
    """What GitHub calls a heading, which is what docs/check.py looks for."""
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


def _headings(sections: Iterable[Section]) -> list[str]:
    """Of the sections; numbered where two would get the same anchor."""
    taken = {anchor(heading) for heading in (TITLE, _FINDINGS, _CONTENTS, _TIMES)}
    headings = []
    for section in sections:
        heading, number = _plain(section.heading), 1
        while anchor(heading) in taken:
            number += 1
            heading = f"{_plain(section.heading)} ({number})"
        taken.add(anchor(heading))
        headings.append(heading)
    return headings


def _introduction(report: Report) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return (
        f"Written by {_code(report.command)} on {_plain(report.date)}, from {report.total_time} of "
        f"computing, all cores together. Versions: {_plain(versions)}."
    )


def _counts(report: Report) -> str:
    return ", ".join(f"{SYMBOLS[verdict]} {verdict}: {n}" for verdict, n in report.counts.items())


def _headline(report: Report, links: Sequence[str]) -> str:
    link_of = dict(zip((one.exhibit.name for one in report.sections), links, strict=True))
    rows = [
        (
            f"[{_plain(section.where)}]({link_of[section.exhibit.name]})",
            _plain(finding.claim),
            _plain(finding.measured),
            _verdict(report, finding),
        )
        for section, finding in report.findings
    ]
    return _grid(("Where", "Claim", "Measured", "Verdict"), rows, [False] * 4)


def _contents(headings: Sequence[str], links: Sequence[str]) -> str:
    entries = [*zip(headings, links, strict=True), (_TIMES, f"#{anchor(_TIMES)}")]
    return "\n".join(f"- [{heading}]({link})" for heading, link in entries)


def _section(report: Report, section: Section, image_folder: str) -> list[str]:
    """Its blocks, without the heading."""
    content = section.content
    blocks = [] if section.exhibit.place else [f"*{NOT_IN_THE_PAPER.capitalize()}.*"]
    for picture in content.pictures:
        blocks += _picture(picture, image_folder)
    for table in content.tables:
        blocks += [f"*{_plain(table.caption)}*", _table(table)]
    if content.findings:
        blocks.append("\n".join(_finding(report, finding) for finding in content.findings))
    return blocks


def _picture(picture: Picture, folder: str) -> list[str]:
    caption = _plain(picture.caption)
    return [f"![{caption}]({folder.rstrip('/')}/{picture.name}.png)", f"*{caption}*"]


def _finding(report: Report, finding: Finding) -> str:
    parts = (("Claim", finding.claim), ("Measured", finding.measured), ("Remark", finding.why))
    said = [f"  - {what}: {_plain(text)}" for what, text in parts if text]
    return "\n".join([f"- **{_verdict(report, finding)}**", *said])


def _verdict(report: Report, finding: Finding) -> str:
    verdict = report.verdict(finding)
    return f"{SYMBOLS[verdict]} {verdict}"


def _times(report: Report) -> str:
    rows = [(_plain(name), _plain(title), took) for name, title, took in report.times]
    rows.append(("**all**", "", f"**{report.total_time}**"))
    return _grid(("Experiment", "What it is", "Time"), rows, [False, False, True])


def _table(table: Table) -> str:
    rows = [[_plain(cell) for cell in row] for row in table.rows]
    return _grid([_plain(name) for name in table.header], rows, numeric_columns(table))


def _grid(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> str:
    """A table of cells that are Markdown already."""
    rule = ["---:" if one else "---" for one in right]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


def _code(text: str) -> str:
    return _plain(text) if "`" in text else f"`{' '.join(text.split())}`"
