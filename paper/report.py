"""The report of a reproduction: for a terminal, as Markdown, as one page. It never trains."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import final

import matplotlib as mpl
from PIL import Image
from rich.box import ROUNDED
from rich.table import Table as RichTable
from rich.text import Text

from benchmarks.harness import markdown_table, versions_of
from handrail._storage import write_atomically
from paper.exhibit import Claim, Content, Drawing, Exhibit, Finding, Table
from paper.experiment import QLearning, Training
from paper.markdown import anchor, code, plain, to_html
from paper.plan import Plan
from paper.results import Results, write_metrics

PAGE, MARKDOWN, FIGURES, METRICS = "report.html", "README.md", "figures", "metrics"
TITLE = "Constrained Policy Gradient Method for Safe and Fast Reinforcement Learning: reproduced"
NOTICE = (
    "This reproduction was cut down: fewer seeds, fewer episodes. It shows that everything works, "
    "but its numbers are not those of the experiments, so no claim is judged by them."
)
NOT_IN_THE_PAPER = "not in the paper"
# A symbol beside the word, since colours are lost in print and on some eyes.
SYMBOLS = {"agrees": "✓", "differs": "≠", "undecided": "?", "not judged": "–"}
_STYLES = {"agrees": "green", "differs": "yellow", "undecided": "cyan", "not judged": "dim"}
_JUDGED, _UNJUDGED = ("agrees", "differs", "undecided"), ("not judged",)
OURS = "+ ours"  # in place of a verdict
BEYOND = "Beyond what the paper claims:"

_NUMBER = re.compile(r"[-+−±<>≤≥≈~\s\[(]*[\d∞]")
_WORD = re.compile(r"[^\W\d_]{4}")
_NOTHING = ("", "-", "–", "—")
_FINDINGS, _CONTENTS, _TIMES = "Findings", "Contents", "How long it took"
DOTS_PER_INCH = 150
_PACKAGES = ("handrail", "torch", "numpy", "scipy", "gymnasium")


# What it says


@final
@dataclass(frozen=True)
class Section:
    """An exhibit with what it shows."""

    exhibit: Exhibit
    content: Content

    @property
    def heading(self) -> str:
        """Where it is in the paper, and what it is."""
        place, title = self.exhibit.place, self.exhibit.title
        return f"{place}. {title}" if place else title

    @property
    def where(self) -> str:
        """Its place in a few words, for a row of a table."""
        return self.exhibit.place or f"{self.exhibit.title} ({NOT_IN_THE_PAPER})"


@final
@dataclass(frozen=True)
class Report:
    """Everything that the page says.

    Attributes:
        command: that wrote it.
        date: when.
        versions: by package.
        seconds: of all seeds of an experiment, by its name.
        experiments: their titles, by name.
        full: whether nothing was cut down; otherwise no claim is judged.
        sections: in the order of the page.
    """

    command: str
    date: str
    versions: dict[str, str]
    seconds: dict[str, float]
    experiments: dict[str, str]
    full: bool
    sections: tuple[Section, ...]

    @property
    def claims(self) -> tuple[tuple[Section, Claim], ...]:
        """All, in order, each with its section."""
        return tuple((one, claim) for one in self.sections for claim in one.content.claims)

    @property
    def findings(self) -> tuple[tuple[Section, Finding], ...]:
        """All, in order, each with its section."""
        return tuple((one, found) for one in self.sections for found in one.content.findings)

    @property
    def counts(self) -> dict[str, int]:
        """The paper's claims by verdict, those of which there are none included."""
        found = Counter(self.verdict(claim) for _, claim in self.claims)
        return {verdict: found[verdict] for verdict in (_JUDGED if self.full else _UNJUDGED)}

    @property
    def counts_in_words(self) -> str:
        """The same with a symbol for each verdict."""
        counts = (f"{SYMBOLS[verdict]} {verdict}: {n}" for verdict, n in self.counts.items())
        return f"The paper's claims: {', '.join(counts)}"

    @property
    def total_time(self) -> str:
        """Of all experiments, as if one core had done everything."""
        return in_units(sum(self.seconds.values()))

    @property
    def times(self) -> tuple[tuple[str, str, str], ...]:
        """Name, title and time of every experiment, longest first."""
        ordered = sorted(self.seconds.items(), key=lambda item: -item[1])
        return tuple((name, self.experiments[name], in_units(took)) for name, took in ordered)

    def verdict(self, claim: Claim) -> str:
        """In a word; what was cut down judges nothing, whatever its numbers are."""
        return claim.verdict if self.full else "not judged"

    def table(self) -> RichTable:
        """All claims, and what is ours, for a terminal."""
        table = RichTable(box=ROUNDED, show_lines=True, caption=self.counts_in_words)
        # Folded, so that no terminal is too narrow for a whole sentence.
        table.add_column("Where", overflow="fold", max_width=26)
        table.add_column("Claim", overflow="fold")
        table.add_column("Measured", overflow="fold")
        table.add_column("Verdict", overflow="fold")
        for section, claim in self.claims:
            verdict = self.verdict(claim)
            badge = Text(f"{SYMBOLS[verdict]} {verdict}", style=_STYLES[verdict])
            # Text, or else rich would take [195, 200] for markup.
            table.add_row(Text(section.where), Text(claim.text), Text(claim.measured), badge)
        for section, found in self.findings:
            table.add_row(Text(section.where), Text(found.text), Text(found.measured), Text(OURS))
        return table


def in_units(seconds: float) -> str:
    """Seconds as people say them: two units at most."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60.0)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def numeric_columns(table: Table) -> list[bool]:
    """Which columns to align right: those with more numbers than words."""
    columns = zip(table.header, *table.rows, strict=True)
    return [_mostly_numbers(cells) for _, *cells in columns]


def _mostly_numbers(cells: list[str]) -> bool:
    known = [cell for cell in cells if cell.strip() not in _NOTHING]
    numbers = [cell for cell in known if _NUMBER.match(cell) and not _WORD.search(cell)]
    return len(numbers) > len(known) / 2


# As Markdown


def to_markdown(report: Report) -> str:
    """The whole report; its drawings are PNG files in the folder of figures beside it."""
    headings = _headings(report.sections)
    links = [f"#{anchor(heading)}" for heading in headings]
    blocks = [f"# {plain(TITLE)}", _introduction(report)]
    if not report.full:
        blocks.append(f"> **Cut down.** {plain(NOTICE)}")
    if report.claims or report.findings:
        blocks += [f"## {_FINDINGS}", *_headlines(report, links)]
    blocks += [f"## {_CONTENTS}", _contents(headings, links)]
    for section, heading in zip(report.sections, headings, strict=True):
        blocks += [f"## {heading}", *_section(report, section)]
    blocks += [f"## {_TIMES}", _times(report)]
    return "\n\n".join(blocks) + "\n"


def _headings(sections: Iterable[Section]) -> list[str]:
    """Of the sections; numbered where two would get the same anchor."""
    taken = {anchor(heading) for heading in (TITLE, _FINDINGS, _CONTENTS, _TIMES)}
    headings = []
    for section in sections:
        heading, number = plain(section.heading), 1
        while anchor(heading) in taken:
            number += 1
            heading = f"{plain(section.heading)} ({number})"
        taken.add(anchor(heading))
        headings.append(heading)
    return headings


def _introduction(report: Report) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return (
        f"Written by {code(report.command)} on {plain(report.date)}, from {report.total_time} of "
        f"computing, all cores together. Versions: {plain(versions)}."
    )


def _headlines(report: Report, links: Sequence[str]) -> list[str]:
    """A table of the paper's claims with their verdicts, and one of what is ours."""
    link_of = dict(zip((one.exhibit.name for one in report.sections), links, strict=True))

    def row(section: Section, said: Claim | Finding) -> tuple[str, str, str]:
        where = f"[{plain(section.where)}]({link_of[section.exhibit.name]})"
        return where, plain(said.text), plain(said.measured)

    blocks = []
    if report.claims:
        rows = [(*row(one, claim), _verdict(report, claim)) for one, claim in report.claims]
        header = ("Where", "Claim", "Measured", "Verdict")
        blocks += [report.counts_in_words, markdown_table(header, rows, [False] * 4)]
    if report.findings:
        ours = [row(one, found) for one, found in report.findings]
        blocks += [BEYOND, markdown_table(("Where", "What", "Measured"), ours, [False] * 3)]
    return blocks


def _contents(headings: Sequence[str], links: Sequence[str]) -> str:
    entries = [*zip(headings, links, strict=True), (_TIMES, f"#{anchor(_TIMES)}")]
    return "\n".join(f"- [{heading}]({link})" for heading, link in entries)


def _section(report: Report, section: Section) -> list[str]:
    """Its blocks, without the heading."""
    content = section.content
    blocks = [] if section.exhibit.place else [f"*{NOT_IN_THE_PAPER.capitalize()}.*"]
    for drawing in content.drawings:
        blocks += _drawing(drawing)
    for table in content.tables:
        blocks += [f"*{plain(table.caption)}*", _table(table)]
    said = [_item(_verdict(report, claim), "Claim", claim) for claim in content.claims]
    said += [_item(OURS, "What", found) for found in content.findings]
    if said:
        blocks.append("\n".join(said))
    return blocks


def _drawing(drawing: Drawing) -> list[str]:
    caption = plain(drawing.caption)
    return [f"![{caption}]({FIGURES}/{drawing.name}.png)", f"*{caption}*"]


def _item(badge: str, kind: str, said: Claim | Finding) -> str:
    parts = ((kind, said.text), ("Measured", said.measured), ("Remark", said.why))
    lines = [f"  - {what}: {plain(text)}" for what, text in parts if text]
    return "\n".join([f"- **{badge}**", *lines])


def _verdict(report: Report, claim: Claim) -> str:
    verdict = report.verdict(claim)
    return f"{SYMBOLS[verdict]} {verdict}"


def _times(report: Report) -> str:
    rows = [(plain(name), plain(title), took) for name, title, took in report.times]
    rows.append(("**all**", "", f"**{report.total_time}**"))
    return markdown_table(("Experiment", "What it is", "Time"), rows, [False, False, True])


def _table(table: Table) -> str:
    rows = [[plain(cell) for cell in row] for row in table.rows]
    return markdown_table([plain(name) for name in table.header], rows, numeric_columns(table))


# As files


def write_results(plan: Plan, command: str) -> Report:
    """Draw and write everything that the plan shows, from results that are all there.

    Args:
        plan: whose jobs are done.
        command: as the page says how it was made.
    """
    results = Results(plan.folder, plan.experiments)
    sections = tuple(Section(one, one.build(results)) for one in plan.exhibits)
    report = Report(
        command=command,
        date=date.today().isoformat(),
        versions=versions_of(_PACKAGES),
        seconds=results.seconds,
        experiments={one.name: one.title for one in plan.experiments},
        full=plan.full,
        sections=sections,
    )
    drawings = [drawing for one in sections for drawing in one.content.drawings]
    images = _write_drawings(drawings, plan.folder / FIGURES)
    learning = [e.name for e in plan.experiments if isinstance(e.study, Training | QLearning)]
    write_metrics(map(results.learned, learning), plan.folder / METRICS)
    markdown = to_markdown(report)
    write_atomically(plan.folder / MARKDOWN, markdown.encode())
    write_atomically(plan.folder / PAGE, report_page(markdown, images).encode())
    return report


def report_page(markdown: str, images: Mapping[str, bytes]) -> str:
    """The report's Markdown as one file of HTML.

    Args:
        markdown: of a report.
        images: a PNG for every drawing, by the path that the Markdown has.
    """
    return to_html(markdown, TITLE, images, DOTS_PER_INCH)


def _write_drawings(drawings: Iterable[Drawing], folder: Path) -> dict[str, bytes]:
    """PNG and SVG of each; the bytes of the PNG, by its path as seen from the report."""
    folder.mkdir(parents=True, exist_ok=True)
    images = {}
    # The same figure gives the same bytes, so redrawing changes nothing that is kept.
    with mpl.rc_context({"svg.hashsalt": "handrail"}):
        for drawing in drawings:
            png, svg = (_rendered(drawing, ending) for ending in ("png", "svg"))
            images[f"{FIGURES}/{drawing.name}.png"] = small = _compressed(png)
            write_atomically(folder / f"{drawing.name}.png", small)
            write_atomically(folder / f"{drawing.name}.svg", svg)
    return images


def _rendered(drawing: Drawing, ending: str) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Date": None} if ending == "svg" else {"Software": None}
    drawing.figure.savefig(buffer, format=ending, dpi=DOTS_PER_INCH, metadata=metadata)
    return buffer.getvalue()


def _compressed(png: bytes) -> bytes:
    """With the 256 colours that suit it best: less than half the size, no difference to the eye."""
    with Image.open(io.BytesIO(png)) as image:
        few = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    smaller = io.BytesIO()
    few.save(smaller, "PNG", optimize=True)
    return smaller.getvalue()
