"""The YAML of constraint files: plain values, lines, and nothing that is executed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handrail.errors import InvalidRulebook
from handrail.rulebook import (
    load_rulebook,
    parse,
)
from handrail.rulebook.source import read, read_value
from tests.support.constraint_files import (
    parses_or_is_refused,
)


def test_plain_values_are_those_of_yaml_1_2() -> None:
    text = """
    floats: [1e-4, 1E5, -2e3, .5, 1., +3.25, .inf]
    ints: [1, -2, +3, 010, 99999999999999999999]
    booleans: [true, False]
    texts: [on, off, yes, no, 2024-01-01, 1_000, 0x10, 1:30, "1", <<, e5, "true"]
    nothing: [~, null, ]
    tagged: [!!float 3, !!str 3, !!int "3", !!bool "true", ! 3]
    """
    data = read(text, "t").data
    assert data["floats"] == [1e-4, 1e5, -2e3, 0.5, 1.0, 3.25, np.inf]
    assert all(isinstance(value, float) for value in data["floats"])
    assert data["ints"] == [1, -2, 3, 10, 1e20]
    assert data["booleans"] == [True, False]
    assert data["texts"][:8] == ["on", "off", "yes", "no", "2024-01-01", "1_000", "0x10", "1:30"]
    assert data["texts"][8:] == ["1", "<<", "e5", "true"]
    assert data["nothing"] == [None, None]
    assert data["tagged"] == [3.0, "3", 3, True, 3]
    # PyYAML's own tables are left alone.
    assert yaml.safe_load("[on, 1e-4]") == [True, "1e-4"]


def test_lines_of_keys_items_and_blocks() -> None:
    source = read("a: 1\nb:\n  - x\n  - {c: 2,\n     d: 3}\ntext: |\n  one\n  two\nq: 'r'\n", "f")
    assert source.lines == {
        (): 1, ("a",): 1, ("b",): 2, ("b", 0): 3, ("b", 1): 4, ("b", 1, "c"): 4, ("b", 1, "d"): 5,
        ("text",): 6, ("q",): 9,
    }  # fmt: skip
    assert source.spot_in_block(("text",), 1).line == 8
    assert source.spot_in_block(("q",), 1).line == 9
    assert source.spot(("b", 1, "missing", 0)).line == 4


def test_merge_keys() -> None:
    text = """
    one: &one {a: 1, b: 1}
    two: &two {b: 2, c: 2}
    both: {<<: [*one, *two], d: 4}
    own: {b: 5, <<: *one}
    chain: {<<: {<<: *two, c: 3}}
    """
    data = read(text, "f").data
    assert data["both"] == {"a": 1, "b": 1, "c": 2, "d": 4}
    assert data["own"] == {"a": 1, "b": 5}
    assert data["chain"] == {"b": 2, "c": 3}


@pytest.mark.parametrize(
    "attack",
    [
        "!!python/object/apply:os.system ['touch {}']",
        "!!python/object/new:os.system ['touch {}']",
        "!!python/object/apply:subprocess.check_output [[touch, '{}']]",
        "!!python/object/apply:eval [\"open('{}', 'w')\"]",
        "!!python/module:os",
        "!<tag:yaml.org,2002:python/object/apply:os.system> ['touch {}']",
    ],
)
@pytest.mark.parametrize("key", ["environment", "definitions", "settings", "? "])
def test_no_file_executes_anything(attack: str, key: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with pytest.raises(InvalidRulebook, match=r"is not allowed here|keys are names"):
        parse(f"{key}: {attack.format(trace)}".replace("? :", "?"), "attack.yaml")
    assert not trace.exists()


BUNDLED_TEXTS = [
    load_rulebook(name).text for name in ("cartpole", "lunar_lander", "cartpole_regions")
]

PIECES = st.sampled_from(
    [*"{[]}?|>~%\t\n'\x00", "*a", "&a ", "<<: ", ": ", "- "]
) | st.sampled_from(["---\n", "!!int ", "require", ".nan", "1e999", "9" * 400, '"\\UFFFFFFFF"'])


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.text() | st.lists(PIECES | st.text("{}[]:,-?&*!|>'\"%@`#\n \tab01<~\\")).map("".join))
def test_any_text_is_refused_politely(text: str) -> None:
    parses_or_is_refused(text)


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.sampled_from(BUNDLED_TEXTS),
    st.floats(0.0, 1.0),
    st.integers(0, 12),
    PIECES | st.text(max_size=6),
)
def test_a_damaged_file_is_refused_politely(text: str, place: float, cut: int, piece: str) -> None:
    at = int(place * len(text))
    parses_or_is_refused(text[:at] + piece + text[at + cut :])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("3", 3),
        ("no", "no"),
        ("true", True),
        ("[64, 64]", [64, 64]),
        ("{x: 2.5}", {"x": 2.5}),
        ("~", None),
        ("", None),
        ('"1"', "1"),
    ],
)
def test_values_are_read_as_in_files(text: str, value: object) -> None:
    assert read_value(text) == value
    assert read(f"a: {text}", "same").data == {"a": value}


@pytest.mark.parametrize("text", ["[1, 2", "*nothing", "!!python/name:os.system", "--- 1\n--- 2"])
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidRulebook):
        read_value(text)
