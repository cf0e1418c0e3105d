"""The harness against closed forms: turns, ratios, power laws, tables."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from benchmarks.harness import (
    Timings,
    clocked,
    interval,
    markdown_table,
    milliseconds,
    power_law,
    quartiles_of,
    table_of,
    take_turns,
    this_machine,
    threads_in_words,
    torch_threads,
    versions_of,
)


def test_competitors_take_turns_after_a_warm_up() -> None:
    calls: list[str] = []
    timings = take_turns(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")},
        rounds=2,
        prepare=lambda: calls.append("-"),
        warm_up=1,
    )
    assert "".join(calls) == 3 * "-a-b"
    assert {name: len(seconds) for name, seconds in timings.seconds.items()} == {"a": 2, "b": 2}


def test_what_prepares_a_turn_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    timings = take_turns(
        {"slow": lambda: wait(6.0), "fast": lambda: wait(2.0)}, 3, prepare=lambda: wait(100.0)
    )
    assert timings.seconds == {"slow": (6.0,) * 3, "fast": (2.0,) * 3}
    assert timings.ratio("slow", "fast") == 3.0


def test_a_clocked_task_gives_its_result_too() -> None:
    result, seconds = clocked(lambda: sum(range(10)))
    assert result == 45
    assert seconds > 0.0


def test_ratios_are_those_of_medians_and_spreads_those_within_rounds() -> None:
    timings = Timings({"a": (2.0, 4.0, 90.0), "b": (1.0, 1.0, 1.0)})
    assert timings.median("a") == 4.0
    assert timings.ratio("a", "b") == 4.0
    assert timings.spread("a", "b") == quartiles_of([2.0, 4.0, 90.0], [1.0] * 3) == (3.0, 47.0)


def test_rounds_are_joined_in_their_order() -> None:
    first, second = Timings({"a": (1.0,), "b": (2.0,)}), Timings({"a": (3.0,), "b": (4.0,)})
    assert Timings.joined([first, second]).seconds == {"a": (1.0, 3.0), "b": (2.0, 4.0)}


def test_power_laws_are_found_and_continued() -> None:
    sizes = [4, 8, 16, 32]
    exponent, law = power_law(sizes, [3.0 * n**1.5 for n in sizes])
    assert exponent == pytest.approx(1.5)
    assert law(100) == pytest.approx(3000.0)
    assert power_law(np.array([1.0, 2.0]), np.array([5.0, 5.0]))[0] == pytest.approx(0.0)


def test_threads_are_put_back_whatever_happens() -> None:
    before = torch.get_num_threads()
    seen: list[int] = []

    def fail() -> None:
        with torch_threads(before + 1):
            seen.append(torch.get_num_threads())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [*seen, torch.get_num_threads()] == [before + 1, before]


def test_versions_leave_out_what_is_not_installed() -> None:
    assert list(versions_of(["numpy", "no-such-package"])) == ["python", "numpy"]
    machine = this_machine([1.5])
    assert machine.cores_got == [1.5]
    assert machine.versions["numpy"] == np.__version__


def test_tables_have_words_left_and_numbers_right() -> None:
    rows = [("one", 1.0), ("two", 2.5)]
    columns = {"name": lambda row: row[0], "value": lambda row: f"{row[1]:.1f}"}
    expected = "| name | value |\n| --- | ---: |\n| one | 1.0 |\n| two | 2.5 |"
    assert table_of(rows, columns) == expected
    assert markdown_table(["name", "value"], [["one", "1.0"], ["two", "2.5"]]) == expected
    assert markdown_table(["a", "b"], [], [True, False]) == "| a | b |\n| ---: | --- |"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(12.3456, "12,346"), (0.1, "100"), (0.0123456, "12.3"), (0.00012, "0.120"), (0.0, "0.00")],
)
def test_milliseconds_have_three_digits(seconds: float, text: str) -> None:
    assert milliseconds(seconds) == text


def test_numbers_in_words() -> None:
    assert interval((0.5, 1.25)) == "0.50 … 1.25"
    assert [threads_in_words(count) for count in (1, 2)] == ["1 thread", "2 threads"]
