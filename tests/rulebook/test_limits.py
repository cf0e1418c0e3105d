"""What is too large is refused by its size, before anything of that size is built."""

from __future__ import annotations

import time

import pytest

from handrail.errors import InvalidRulebook
from handrail.rulebook import parse, with_settings
from tests.support.constraint_files import HEAD, ONE, refusal

GRID = "{{x: {{from: 0, to: 1, count: {count}}}, x_dot: {i}, phi: 0, phi_dot: 0}}"
SECONDS = 10.0


def entries(count: int, where: str = "{{x: {i}, x_dot: 0, phi: 0, phi_dot: 0}}") -> str:
    lines = (
        f"- {{name: c{i}, where: {where.format(i=i, count=count)}, require: right >= 0.9}}\n"
        for i in range(count)
    )
    return f"{HEAD}constraints:\n{''.join(lines)}"


def grids(sizes: list[int], require: str = "right >= 0.4") -> str:
    lines = (
        f"- {{name: c{i}, where: {GRID.format(i=i, count=size)}, require: {require}}}\n"
        for i, size in enumerate(sizes)
    )
    return f"{HEAD}constraints:\n{''.join(lines)}"


def table(rows: int) -> str:
    lines = (f"      {i} right >= 0.{i:05d}1\n" for i in range(rows))
    return (
        f"{HEAD}constraints:\n  - name: a\n    where: {{x: 0, x_dot: 0, phi: 0}}\n    table: |\n"
        f"      phi_dot require\n{''.join(lines)}"
    )


def network(hidden: str) -> str:
    return f"{HEAD}settings: {{network: {{hidden: {hidden}}}}}\n{ONE}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (entries(1001), "constraints: expected at most 1000, but got 1001."),
        (entries(8000), "the file has more than 50,000 values"),
        (grids([100_001]), "this describes 100,001 states; the constraints of a file have at most"),
        (grids([60_000, 60_000]), "this describes 60,000 states, 120,000 with those before"),
        (grids([1_000_000] * 30), "the constraints of a file have at most 100,000 together. Use"),
        (grids([60_000], "[right >= 0.4, left >= 0.4]"), "this describes 120,000 states"),
        (table(1001), "from here on the file has more than 1,000 constraints"),
        (network("[100000000]"), "hidden[0]: expected less than or equal to 100000, but got 1000"),
        (network("[5000, 5001]"), "these layers have 25,005,000 weights between them"),
        (network(str([1] * 10_000)), "hidden: expected at most 50, but got 10000."),
    ],
    ids=lambda value: value[:40] if "line" in value else "",
)
def test_what_is_too_large_is_refused_in_time(text: str, said: str) -> None:
    start = time.process_time()  # of a busy machine, only what this took counts
    assert said in refusal(text)
    assert time.process_time() - start < SECONDS


def test_the_limits_themselves_are_allowed() -> None:
    assert len(parse(entries(1000), "many").constraints) == 1000
    (one,) = parse(grids([100_000]), "fine").constraints
    assert len(one.states) == 100_000
    assert parse(network("[4000, 5000]"), "wide").settings.network.hidden == [4000, 5000]


def test_settings_from_elsewhere_have_the_same_limits() -> None:
    book = parse(HEAD + ONE, "small")
    with pytest.raises(InvalidRulebook, match=r"hidden: these layers have 25,000,000 weights"):
        with_settings(book, network={"hidden": [5000, 5000]})


def test_of_very_many_faults_the_first_are_told() -> None:
    text = entries(100, "{{x: {i}, x_dot: 0, phi: 0, phj: 0}}")
    lines = refusal(text).split("\n")
    assert len(lines) == 21
    assert lines[0].startswith("any.yaml, line 6: unknown observation 'phj'")
    assert lines[-1] == "And 80 more."
