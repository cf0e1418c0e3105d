"""Constraint files as nobody should write them: no traceback, no hang, nothing through to a screen.

Bundled files are taken apart and put together again with hostile names, numbers, formulas and
regions; each is parsed, told in words, tried on a network and put on a page.
"""

from __future__ import annotations

import copy
import random
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from handrail.cli.check import check
from handrail.cli.console import complain
from handrail.errors import HandrailError
from handrail.report.statistics import GroupSummary, Spread
from handrail.rulebook import bundled, load_rulebook
from handrail.rulebook.catalogue import read_file
from handrail.studio.cards import cards_of, names_of
from handrail.studio.still import page_with

SECONDS = 10

TEXTS = [
    *("", "\x00", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\nb", "a\rb", "\u202eabc", "\x7f"),
    *("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "|table|", "# head", "`id`"),
    *(
        "[/]",
        "[/foo]",
        "[bold]x[/bold]",
        "[link=http://x]y[/link]",
        ":smile:",
        "$x_{$",
        "%s",
        "{0}",
    ),
    *("right >= 0.95", "1e400*right >= 1", "right >= 1e-320", "0.3 <= right <= 0.2", "x" * 5000),
    *(
        "right >= " + "(" * 100,
        "-" * 3000 + "1",
        "right" + "+right" * 400 + " >= 0.1",
        "left == 0.5",
    ),
    *("2*left+right >= 1.2", "-1*left-2*right >= -0.5", "left >= right", "phi >= 0.5"),
]
NUMBERS: list[Any] = [
    *(0, -0.0, 1, -1, 10**9, 10**40, 10**400, float("inf"), float("nan"), 1e-320, 1e308, -1e308),
    *(1e-300, True, None, 2**63, 0.1, 1.5, 1e300, 1e150),
]
FORMULAS = [
    *("9**9**9**9", "t**t**t", "(" * 300 + "t" + ")" * 300, "sin(" * 80 + "t" + ")" * 80, "1/t"),
    *("+".join(["t"] * 2000), "exp(exp(exp(t)))", "t.real", "__import__('os')", "1e308*t*10", "5"),
]
ONE = Spread(1.0, 0.0, 1.0, (1.0, 1.0))
PAGE = GroupSummary(seeds=(), first=ONE, last=ONE, pass_mark=None)


def hostile(rng: random.Random) -> Any:
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(TEXTS)
    if kind < 0.75:
        return rng.choice(NUMBERS)
    if kind < 0.85:
        return [rng.choice(NUMBERS) for _ in range(rng.randint(0, 6))]
    if kind < 0.92:
        deep: Any = 1
        for _ in range(rng.choice([3, 20, 200])):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        return deep
    count = rng.choice([0, 1, 2, 10**9, -3, 10**6, 100_001, 2.5, "9", True])
    return {"from": rng.choice(NUMBERS), "to": rng.choice(NUMBERS), "count": count}


def region(rng: random.Random) -> Any:
    curve = {"from": 0, "to": rng.choice([1, 1e300, -1]), "phi": rng.choice(FORMULAS)}
    ball = {"of": ["phi", "phi_dot"], "centre": [0.1, 0.1], "radius": rng.choice(NUMBERS)}
    vertices = [[rng.choice([0, 1e-300, 1e300, rng.random()]) for _ in "ab"] for _ in range(4)]
    return rng.choice(
        [
            {"x": [-1, 1], "x_dot": 0, "phi": [0, 0.1], "phi_dot": 0},
            {"x": 0, "x_dot": 0, "curve": {**curve, "phi_dot": "t"}},
            {"x": 0, "x_dot": 0, "ball": ball},
            {"x": 0, "x_dot": 0, "polytope": {"of": ["phi", "phi_dot"], "vertices": vertices}},
        ]
    )


def paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, value in items:
        yield from paths(value, (*path, key))


def at(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def mutate(rng: random.Random, data: Any) -> None:
    chosen = rng.choice(list(paths(data)))
    parent, key, kind = at(data, chosen[:-1]), chosen[-1], rng.random()
    if kind < 0.45:
        parent[key] = hostile(rng)
    elif kind < 0.55:
        del parent[key]
    elif kind < 0.65 and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[key]))
    elif kind < 0.8 and isinstance(data.get("constraints"), list):
        name, require = rng.choice(TEXTS) + str(rng.random()), rng.choice(TEXTS)
        data["constraints"].append({"name": name, "region": region(rng), "require": require})
    else:
        data["description"] = rng.choice(TEXTS)


def rename(rng: random.Random, data: Any) -> None:
    """Nothing but hostile names and numbers, so that most files get as far as a network."""
    for entry in data["constraints"]:
        if rng.random() < 0.5:
            entry["name"] = rng.choice([text for text in TEXTS if text.strip()])[:100] + str(
                rng.random()
            )
    for path in list(paths(data["constraints"])):
        number = isinstance(at(data["constraints"], path), int | float) and path[-1] != "count"
        if number and rng.random() < 0.1:
            at(data["constraints"], path[:-1])[path[-1]] = rng.choice([0, 1e-320, 1e300, 1e8, 0.3])
    data["description"] = rng.choice(TEXTS)


def file_of(seed: int) -> str:
    rng = random.Random(seed)
    text, _ = read_file(rng.choice(bundled()))
    data = yaml.safe_load(text)
    settings = data.setdefault("settings", {})
    settings["network"] = {"hidden": [rng.choice([4, 16])]}
    settings["selection"] = {"strategy": "everywhere", "sample": 100, "seconds": 2.0}
    if rng.random() < 0.4:
        rename(rng, data)
    else:
        for _ in range(rng.choice([1, 1, 2, 3])):
            mutate(rng, data)
    dumped: str = yaml.safe_dump(data, allow_unicode=True, width=10**9)
    if rng.random() < 0.2:  # and as text: something lost or doubled
        place = rng.randrange(len(dumped))
        dumped = (
            dumped[:place]
            + rng.choice(["\t", "&a ", "*a", "---\n", "\x1b[2J", "[", ""])
            + dumped[place + 3 :]
        )
    return dumped


@contextmanager
def watchdog(case: int) -> Iterator[None]:
    """Where there is no such signal, the test only takes longer."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def bark(*_: object) -> None:
        raise TimeoutError(f"case {case} takes longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def page_of(path: Path) -> str:
    """What a file leads to; empty if it is refused before it gets to a page."""
    page = ""
    try:
        book = load_rulebook(path)
        cards = [one.model_dump() for one in cards_of(book, [])]
        data = {"names": names_of(book).model_dump(), "cards": cards}
        page = page_with(book, PAGE._repr_html_(), data)
        check(str(path), None, None)
    except HandrailError as error:
        complain(str(error))
    return page


def try_files(seeds: range, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "case.yaml"
    reached = 0
    for seed in seeds:
        path.write_text(file_of(seed), encoding="utf-8")
        with watchdog(seed):
            page = page_of(path)
        printed = "".join(capsys.readouterr())
        without_styles = re.sub(r"\x1b\[[0-9;]*m", "", printed)
        assert not set(without_styles) & set("\x1b\x07\x00\x7f\r\u202e"), seed
        assert not set(page) & set("\x1b\x07\x00\x7f\r\u202e"), seed
        assert "<script>" not in page, seed
        assert "<img src=x" not in page, seed
        reached += bool(page)
    assert reached > len(seeds) // 10  # as many get further than the parser


def test_a_hundred_hostile_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try_files(range(100), tmp_path, capsys)


@pytest.mark.slow
def test_two_thousand_hostile_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try_files(range(100, 2100), tmp_path, capsys)
