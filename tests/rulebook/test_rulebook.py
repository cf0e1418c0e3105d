"""Constraint files: what they mean, what they refuse (tests/rulebook/bad), and that they are data.

Every file of the corpus begins with `# expect:` comments, texts that must be in the message. A
comment `# <- here` marks a line that the message must name.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym
import jsonschema
import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.constraints.constraint import AtLeast, AtMost, Between, Equal
from handrail.constraints.rows import concatenate
from handrail.errors import InvalidRulebook
from handrail.regions.ball import Ball
from handrail.regions.box import Box
from handrail.regions.curve import Curve
from handrail.regions.polytope import Polytope
from handrail.regions.region import Region
from handrail.regions.union import Union
from handrail.rulebook import (
    Rulebook,
    bundled,
    constraints_of,
    load_rulebook,
    parse,
    with_settings,
)
from handrail.rulebook.environment import EnvironmentSpec
from handrail.rulebook.picture import Picture
from handrail.rulebook.schema import json_schema
from handrail.rulebook.source import MAX_BYTES, read
from handrail.settings import Everywhere, MaximumDeviation, MaximumReturn, RunSettings
from tests.support import cartpole
from tests.support.paths import ROOT
from tests.support.scripts import load_script

BAD = sorted((Path(__file__).parent / "bad").glob("*.yaml"))
PAGE = ROOT / "docs" / "reference" / "constraint-files.md"
HEAD = """
environment: CartPole-v1
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
"""
ONE = "constraints: [{name: a, where: {x: 0, x_dot: 0, phi: 0, phi_dot: 0}, require: left >= 0.5}]"


def book(constraints: str, head: str = HEAD) -> Rulebook:
    return parse(head + constraints, "test.yaml")


def rule(where: str, require: str = "right >= 0.95") -> Rulebook:
    return book(f"constraints:\n  - name: a\n    require: {require}\n{where}")


def states(where: str) -> Array:
    (constraint,) = rule(where).constraints
    return constraint.states


# What is refused


@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_a_bad_file_is_refused_with_its_line(file: Path) -> None:
    lines = file.read_text().split("\n")
    prefix = "# expect: "
    expected = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
    marked = [n for n, line in enumerate(lines, start=1) if line.endswith("# <- here")]
    assert expected
    assert marked or re.search(r"line \d", " ".join(expected))
    with pytest.raises(InvalidRulebook) as caught:
        load_rulebook(file)
    message = str(caught.value)
    for line in message.split("\n"):
        assert re.match(rf"{re.escape(file.name)}, line \d+(, [\w.\[\]]+)?: \S", line)
        assert line.count(file.name) == 1
    for text in (*expected, *(f"{file.name}, line {n}" for n in marked)):
        assert text in message


def test_the_corpus_is_large() -> None:
    assert len(BAD) >= 250


def test_errors_come_in_the_order_of_the_file() -> None:
    text = HEAD + "pass_mark: high\nsettings: {seed: -1}\ndescription: 3\n" + ONE
    with pytest.raises(InvalidRulebook) as caught:
        parse(text, "test.yaml")
    lines = [int(number) for number in re.findall(r"line (\d+)", str(caught.value))]
    assert lines == [5, 6, 7]
    assert caught.value.line == 5
    picture = "picture: {across: q, up: x, across_range: [0, 1], up_range: [0, 1], action: left}\n"
    with pytest.raises(InvalidRulebook, match="line 5: unknown observation 'q'") as caught:
        parse(HEAD + picture + ONE.replace("left >=", "lefd >="), "test.yaml")
    assert "line 6: unknown action 'lefd'" in str(caught.value)


def test_a_spread_of_discrete_actions_is_refused() -> None:
    text = HEAD + "settings: {network: {std: 0.2}}\n" + ONE
    line = text[: text.index("std")].count("\n") + 1
    message = f"few.yaml, line {line}, settings.network.std: it is how widely continuous actions"
    with pytest.raises(InvalidRulebook, match=re.escape(message)):
        parse(text, "few.yaml")


def test_large_and_unreadable_files(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(InvalidRulebook, match=r"^large.yaml, line 1: the file has 1,000,001 char"):
        load_rulebook(large)
    with pytest.raises(InvalidRulebook, match="at most 1,000,000"):
        parse("#" * (MAX_BYTES + 1), "large")
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"# fine\n# na\xefve\n")
    with pytest.raises(InvalidRulebook, match=r"^latin.yaml, line 2: the byte 0xef is not UTF-8"):
        load_rulebook(latin)
    model = tmp_path / "model.zip"
    model.write_bytes(b"PK\x03\x04\xff")
    with pytest.raises(InvalidRulebook, match=r"0xff is not UTF-8. A constraint file is text"):
        load_rulebook(model)
    with pytest.raises(InvalidRulebook, match="is a directory, not a file"):
        load_rulebook(tmp_path)
    with pytest.raises(InvalidRulebook, match=r"Cannot read 'aaa.*: File name too long"):
        load_rulebook("a" * 1000)


def test_an_unknown_name_lists_the_bundled_ones() -> None:
    with pytest.raises(InvalidRulebook) as caught:
        load_rulebook("cart_pole")
    assert "'cart_pole' does not exist." in str(caught.value)
    assert "cartpole, cartpole_500, cartpole_disks, cartpole_equality, " in str(caught.value)
    assert "Did you mean 'cartpole'?" in str(caught.value)


# Only data


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


def refusal(text: str) -> str:
    try:
        parse(text, "any.yaml")
    except InvalidRulebook as error:
        return str(error)
    return ""


def parses_or_is_refused(text: str) -> None:
    message = refusal(text)
    assert not message or message.startswith("any.yaml, line ")


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


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.text("leftrigh0123456789.e+-*<>=%() ≤≥") | st.text())
def test_any_requirement_is_refused_politely(require: str) -> None:
    where = "where: {x: 0, x_dot: 0, phi: 0, phi_dot: 0}"
    parses_or_is_refused(
        f"{HEAD}constraints: [{{name: a, {where}, require: {json.dumps(require)}}}]"
    )


def in_region(region: str, require: str = "right >= 0.95") -> str:
    return f"{HEAD}constraints: [{{name: a, region: {region}, require: {json.dumps(require)}}}]"


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.text("tpi0123456789.e+-*/^() ,_sincox") | st.text())
def test_any_expression_is_refused_politely(text: str) -> None:
    curve = f"{{from: 0, to: 1, phi: {json.dumps(text)}, phi_dot: t}}"
    parses_or_is_refused(in_region(f"{{x: 0, x_dot: 0, curve: {curve}}}"))


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.text("phi_dot0123456789.e+-*/ <>=") | st.text())
def test_any_half_space_is_refused_politely(text: str) -> None:
    sides = ["phi >= 0", "phi <= 1", "phi_dot >= 0", "phi_dot <= 1", text]
    polytope = f"{{of: [phi, phi_dot], half_spaces: {json.dumps(sides)}}}"
    parses_or_is_refused(in_region(f"{{x: 0, x_dot: 0, polytope: {polytope}}}"))


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.tuples(FINITE, FINITE), min_size=3, max_size=6)
    | st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=6)
)
def test_any_vertices_are_refused_politely(vertices: list[tuple[float, float]]) -> None:
    polytope = f"{{of: [phi, phi_dot], vertices: {json.dumps(vertices)}}}"
    parses_or_is_refused(in_region(f"{{x: [-1, 1], x_dot: 0, polytope: {polytope}}}"))


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.lists(FINITE | st.floats(-1.0, 1.0), min_size=6, max_size=6))
def test_any_ball_is_refused_politely(numbers: list[float]) -> None:
    *centre, radius, low, high = numbers
    ball = f"{{of: [phi, phi_dot, x], centre: {centre}, radius: {radius}}}"
    parses_or_is_refused(in_region(f"{{x_dot: [{low}, {high}], ball: {ball}}}"))


# Plain values


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


# Requirements


PLACE = "    where: {x: 0, x_dot: 0, phi: 0, phi_dot: 0}\n"


@pytest.mark.parametrize(
    ("text", "kind", "weights", "lower", "upper"),
    [
        ("right >= 0.95", AtLeast, [0, 1], 0.95, np.inf),
        ("0.95 <= right", AtLeast, [0, 1], 0.95, np.inf),
        ("right ≥ .95", AtLeast, [0, 1], 0.95, np.inf),
        ("left<=5e-2", AtMost, [1, 0], -np.inf, 0.05),
        ("left ≤ 0.05", AtMost, [1, 0], -np.inf, 0.05),
        ("left == 0.5", Equal, [1, 0], 0.5, 0.5),
        ("0.5 == left", Equal, [1, 0], 0.5, 0.5),
        ("0.2 <= left <= 0.4", Between, [1, 0], 0.2, 0.4),
        ("0.4 >= left >= 0.2", Between, [1, 0], 0.2, 0.4),
        ("0.25 <= left + 0.125 <= 0.5", Between, [1, 0], 0.125, 0.375),
        ("0.3 <= left <= 0.3", Equal, [1, 0], 0.3, 0.3),
        ("0.5*left + right <= 0.8", AtMost, [0.5, 1], -np.inf, 0.8),
        ("left >= right", AtLeast, [1, -1], 0.0, np.inf),
        ("left - 2*right >= -0.5", AtLeast, [1, -2], -0.5, np.inf),
        ("left + 0.25 <= right + 0.5", AtMost, [1, -1], -np.inf, 0.25),
        ("left + left >= 0.5", AtLeast, [2, 0], 0.5, np.inf),
        ("'-left <= -0.5'", AtMost, [-1, 0], -np.inf, -0.5),
    ],
)
def test_requirements(
    text: str, kind: type[hr.Constraint], weights: list[float], lower: float, upper: float
) -> None:
    (constraint,) = rule(PLACE, require=text).constraints
    assert type(constraint) is kind
    rows = constraint.rows(2)
    np.testing.assert_array_equal(rows.weights, [weights])
    assert (rows.lower.item(), rows.upper.item()) == (lower, upper)
    assert not np.signbit(rows.lower.item()) or lower < 0


def test_several_requirements_have_names_of_their_own() -> None:
    rules = rule(PLACE + "    priority: 3\n", require="[right >=   0.6, right <= 0.9]")
    assert [constraint.name for constraint in rules.constraints] == [
        "a: right >= 0.6",
        "a: right <= 0.9",
    ]
    assert [constraint.priority for constraint in rules.constraints] == [3.0, 3.0]
    assert rules.sentences[0] == "a: right >= 0.6 at 1 state (x 0, x_dot 0, phi 0, phi_dot 0)"


# Places


def test_where_is_every_combination_in_the_order_of_the_observations() -> None:
    found = states(
        "    where: {phi_dot: [7, 8], phi: 5, x_dot: {from: -1, to: 1, count: 3}, x: [2, 1]}"
    )
    expected = [[x, v, 5, w] for x in (2, 1) for v in (-1, 0, 1) for w in (7, 8)]
    np.testing.assert_array_equal(found, expected)


def test_a_grid_is_evenly_spaced() -> None:
    found = states("    where: {x: {from: -2, to: 2, count: 9}, x_dot: 0, phi: 0, phi_dot: 0}")
    np.testing.assert_array_equal(found[:, 0], [-2 + 0.5 * k for k in range(9)])


def test_a_list_of_mappings_is_their_union() -> None:
    found = states(
        "    where:\n"
        "      - {x: [0, 1], x_dot: 0, phi: 0, phi_dot: 0}\n"
        "      - {x: 5, x_dot: 6, phi: 7, phi_dot: 8}\n"
    )
    np.testing.assert_array_equal(found, [[0, 0, 0, 0], [1, 0, 0, 0], [5, 6, 7, 8]])


@pytest.mark.parametrize(
    "table",
    [
        "phi x\n0.25 -1\n.5 2e0",
        "phi, x\n0.25, -1,\n0.5, 2",
        "| phi  | x  |\n|------|:--:|\n| 0.25 | -1 |\n| 0.5  | 2  |",
        "# a comment\n\nphi\tx  # another\n\n0.25 -1  # and one\n# last\n0.5 +2\n",
    ],
)
def test_tables_combine_with_where(table: str) -> None:
    block = "\n".join(f"      {line}" for line in table.split("\n"))
    found = states(f"    where: {{phi_dot: [3, 4], x_dot: 9}}\n    table: |\n{block}\n")
    expected = [[-1, 9, 0.25, 3], [-1, 9, 0.25, 4], [2, 9, 0.5, 3], [2, 9, 0.5, 4]]
    np.testing.assert_array_equal(found, expected)


def test_rows_with_the_same_requirement_are_one_constraint() -> None:
    rules = book(
        "constraints:\n"
        "  - name: lean\n"
        "    where: {x: 0, x_dot: 0}\n"
        "    table: |\n"
        "      | phi | phi_dot | require |\n"
        "      | 0.2 | 0 | right >= 0.9 |\n"
        "      | -0.2 | 0 | left >= 0.9 |\n"
        "      | 0.2 | 0 | left <= 0.1 |\n"
        "      | 0.3 | 0 | 0.9 <= right |\n"
    )
    right, left, at_most = rules.constraints
    assert right.name == "lean: right >= 0.9"
    np.testing.assert_array_equal(right.states, [[0, 0, 0.2, 0], [0, 0, 0.3, 0]])
    np.testing.assert_array_equal(left.states, [[0, 0, -0.2, 0]])
    assert isinstance(at_most, AtMost)


def test_many_observations_and_states() -> None:
    names = [f"o{k}" for k in range(100)]
    where = ", ".join(f"{name}: {k}" for k, name in enumerate(names[:-1]))
    rules = parse(
        f"environment: E\nobservations: [{', '.join(names)}]\nactions: [on, off]\n"
        f"constraints:\n  - name: a\n    where: {{{where}, o99: {{from: 0, to: 1, count: 101}}}}\n"
        "    require: on >= 0.5\n",
        "wide.yaml",
    )
    expected = np.tile(np.arange(100.0), (101, 1))
    expected[:, 99] = np.linspace(0, 1, 101)
    np.testing.assert_array_equal(rules.constraints[0].states, expected)


# Regions


RECTANGLE = [[-0.4, 0.4], [-0.3, 0.4], [-0.267, 0.133], [-0.4, 0.133]]
CIRCLE = ["0.05*cos(t) - 0.2", "0.05*sin(t) - 0.2"]
WHOLE: list[tuple[str, Region, str]] = [
    (
        "{phi_dot: [0, 0.05], x: [-2.5, 2.5], x_dot: 0, phi: [0.2, 0.25]}",
        Box([-2.5, 0, 0.2, 0], [2.5, 0, 0.25, 0.05]),
        "in a box (x from -2.5 to 2.5, x_dot 0, phi from 0.2 to 0.25, phi_dot from 0 to 0.05)",
    ),
    (
        f"{{x: [-2.5, 2.5], x_dot: 0, polytope: {{of: [phi, phi_dot], vertices: {RECTANGLE}}}}}",
        Polytope(RECTANGLE, [2, 3], {0: (-2.5, 2.5), 1: 0}),
        "in a polytope of phi, phi_dot (phi from -0.4 to -0.267, phi_dot from 0.133 to 0.4, "
        "x from -2.5 to 2.5, x_dot 0)",
    ),
    (
        f"{{x: 1, phi: [0, 1], polytope: {{of: [phi_dot, x_dot], vertices: {RECTANGLE}}}}}",
        Polytope(RECTANGLE, [3, 1], {0: 1, 2: (0, 1)}),
        "in a polytope of phi_dot, x_dot (phi_dot from -0.4 to -0.267, x_dot from 0.133 to 0.4, "
        "x 1, phi from 0 to 1)",
    ),
    (
        "{x: 0, x_dot: 0, polytope: {of: [phi, phi_dot], half_spaces: [phi_dot <= -8*phi - 2, "
        "phi >= -0.4, -0.4 <= phi_dot, 2*phi_dot - 0.8 <= 0]}}",
        Polytope.from_half_spaces(
            [[8, 1], [-1, 0], [0, -1], [0, 2]], [-2, 0.4, 0.4, 0.8], [2, 3], {0: 0, 1: 0}
        ),
        "in a polytope of phi, phi_dot (phi from -0.4 to -0.2, phi_dot from -0.4 to 0.4, x 0, "
        "x_dot 0)",
    ),
    (
        "{x_dot: 0, polytope: {of: [phi, x, phi_dot], vertices: [[0, 0, 0], [1, 0, 0], [0, 1, 0], "
        "[0, 0, 1]]}}",
        Polytope([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [2, 0, 3], {1: 0}),
        "in a polytope of phi, x, phi_dot (phi from 0 to 1, x from 0 to 1, phi_dot from 0 to 1, "
        "x_dot 0)",
    ),
    (
        "{x: [-3, 1], x_dot: 7, ball: {of: [phi, phi_dot], centre: [-0.2, 0.2], radius: 0.05}}",
        Ball([-1, 7, -0.2, 0.2], 0.05, [2, 3], {0: (-3, 1)}),
        "in a ball of phi, phi_dot (phi from -0.25 to -0.15, phi_dot from 0.15 to 0.25, "
        "x from -3 to 1, x_dot 7)",
    ),
    (
        "{ball: {of: [x, x_dot, phi, phi_dot], centre: [1, 2, 3, 4], radius: 1}}",
        Ball([1, 2, 3, 4], 1.0),
        "in a ball of x, x_dot, phi, phi_dot (x from 0 to 2, x_dot from 1 to 3, phi from 2 to 4, "
        "phi_dot from 3 to 5)",
    ),
    (
        "{x: 0, curve: {from: 0, to: 6.2832, phi: "
        f'"{CIRCLE[0]}", phi_dot: "{CIRCLE[1]}", x_dot: 0.5}}}}',
        Curve([0.0, 0.5, *CIRCLE], 0.0, 6.2832),
        "on a curve of phi, phi_dot (phi from -0.25 to -0.15, phi_dot from -0.25 to -0.15, x 0, "
        "x_dot 0.5)",
    ),
    (
        "[{x: [0, 1], x_dot: 0, phi: 0, phi_dot: 0}, "
        "{x: 0, x_dot: 0, ball: {of: [phi, phi_dot], centre: [0, 0], radius: 1}}]",
        Union([Box([0, 0, 0, 0], [1, 0, 0, 0]), Ball([0, 0, 0, 0], 1.0, [2, 3])]),
        "in 2 regions: a box (x from 0 to 1, x_dot 0, phi 0, phi_dot 0); a ball of phi, phi_dot "
        "(phi from -1 to 1, phi_dot from -1 to 1, x 0, x_dot 0)",
    ),
]


@pytest.mark.parametrize(("text", "expected", "words"), WHOLE)
def test_regions(text: str, expected: Region, words: str) -> None:
    rules = parse(in_region(text), "test.yaml")
    (constraint,) = rules.constraints
    assert isinstance(constraint, AtLeast)
    assert constraint.region is not None
    assert constraint.region.describe() == expected.describe()
    assert rules.sentences == (f"a: right >= 0.95 everywhere {words}",)
    assert constraint.rows(2).states.shape == (100, 4)
    VALIDATOR.validate(rules.source.data)


def test_a_region_with_several_requirements() -> None:
    rules = book(
        "constraints:\n"
        "  - {name: a, region: &where {x: [0, 1], x_dot: 0, phi: 0, phi_dot: 0}, priority: 3, "
        "require: [0.2 <= left <= 0.8, left <= right]}\n"
        "  - {name: b, region: *where, require: left <= 0.7}\n"
        "  - {name: c, where: {x: 0, x_dot: 0, phi: 0, phi_dot: 0}, require: left <= 0.7}\n"
    )
    assert [type(constraint) for constraint in rules.constraints] == [
        Between,
        AtMost,
        AtMost,
        AtMost,
    ]
    assert [constraint.name for constraint in rules.constraints] == [
        "a: 0.2 <= left <= 0.8",
        "a: left <= right",
        "b",
        "c",
    ]
    assert [constraint.priority for constraint in rules.constraints] == [3.0, 3.0, 1.0, 1.0]


# The rulebook


def test_everything_a_file_says() -> None:
    text = (
        "description: All of it\n"
        "environment: {id: CartPole-v1, max_episode_steps: 7, options: {sutton_barto_reward: true}}"
        "\nobservations: [x, x_dot, phi, phi_dot]\nactions: [left, right]\n"
        "definitions: {anything: [goes]}\n"
        "settings: {episodes: 3, step_size: 1e-3, network: {hidden: [8], scale: {phi: 0.5}}}\n"
        "pass_mark: 5\n"
        "picture: {across: phi, up: x, across_range: [-1, 1], up_range: [0, 2], at: {x_dot: 3}, "
        "action: right}\n" + ONE
    )
    rules = parse(text, "all.yaml")
    assert (rules.name, rules.text, rules.description) == ("all", text, "All of it")
    assert rules.environment == EnvironmentSpec("CartPole-v1", 7, {"sutton_barto_reward": True})
    assert rules.observations == ("x", "x_dot", "phi", "phi_dot")
    assert rules.actions == ("left", "right")
    assert rules.settings == RunSettings.model_validate(
        {"episodes": 3, "step_size": 1e-3, "network": {"hidden": [8], "scale": {"phi": 0.5}}}
    )
    assert rules.scale() == (1.0, 1.0, 0.5, 1.0)
    assert rules.pass_mark == 5.0
    assert rules.picture == Picture(2, 0, (-1.0, 1.0), (0.0, 2.0), (0.0, 3.0, 0.0, 0.0), 1)
    env = rules.make_environment()
    assert env.spec is not None
    assert env.spec.max_episode_steps == 7
    env.close()
    assert pickle.loads(pickle.dumps(rules)).sentences == rules.sentences
    with pytest.raises(dataclasses.FrozenInstanceError):
        rules.name = "other"  # type: ignore[misc]


def test_settings_from_the_command_line() -> None:
    rules = parse(HEAD + "settings: {episodes: 3, network: {hidden: [8]}}\n" + ONE, "few.yaml")
    changed = with_settings(rules, seed=4, network={"activation": "tanh"})
    assert changed.settings.model_dump(exclude_unset=True) == {
        "episodes": 3,
        "seed": 4,
        "network": {"hidden": [8], "activation": "tanh"},
    }
    assert rules.settings.seed == 0
    assert changed.constraints is rules.constraints
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"step_size": -1.0}, "few, settings.step_size: expected greater than 0, but got -1.0."),
        ({"sed": 1}, "few, settings.sed: unknown key 'sed' in settings. Known here: step_size, "),
        ({"network": 3}, "few, settings.network: expected a mapping of keys and values"),
        ({"network": {"hiden": [3]}}, "Known here: hidden, activation, std, scale."),
        ({"network": {"scale": {"y": 1.0}}}, "settings.network.scale: unknown observation 'y'."),
        (
            {"network": {"std": 0.2}},
            "settings.network.std: it is how widely continuous actions vary, but these are "
            "discrete. Leave it out.",
        ),
    ]
    for overrides, message in wrong:
        with pytest.raises(InvalidRulebook, match=re.escape(message)):
            with_settings(rules, **overrides)


SELECTED: list[tuple[str, Any, hr.Everywhere | hr.MaximumReturn | hr.MaximumDeviation]] = [
    ("", None, Everywhere()),
    ("everywhere", None, Everywhere()),
    ("{prove: true, margin: 0.1}", None, Everywhere(prove=True, margin=0.1)),
    ("maximum_deviation", None, MaximumDeviation()),
    ("{strategy: maximum_return, points: 9, states: 2}", None, MaximumReturn(points=9, states=2)),
    ("", "maximum_return", MaximumReturn()),
    ("", {"prove": True}, Everywhere(prove=True)),
    ("{margin: 0.1}", {"prove": True}, Everywhere(prove=True, margin=0.1)),
    ("{margin: 0.1}", "everywhere", Everywhere(margin=0.1)),
    ("{margin: 0.1}", "maximum_return", MaximumReturn()),
    ("{margin: 0.1}", MaximumReturn(points=3), MaximumReturn(points=3)),
    ("{strategy: maximum_return, points: 9}", {"states": 2}, MaximumReturn(points=9, states=2)),
    (
        "{strategy: maximum_return, points: 9}",
        {"strategy": "maximum_deviation", "states": 2},
        MaximumDeviation(states=2),
    ),
    ("{strategy: maximum_return, points: 9}", Everywhere(sample=5), Everywhere(sample=5)),
]


@pytest.mark.parametrize(("written", "override", "expected"), SELECTED)
def test_selections_are_merged(
    written: str, override: Any, expected: hr.Everywhere | hr.MaximumReturn | hr.MaximumDeviation
) -> None:
    selection = f"selection: {written}" if written else ""
    rules = parse(f"{HEAD}settings: {{seed: 3, {selection}}}\n{ONE}", "few.yaml")
    VALIDATOR.validate(rules.source.data)
    if override is not None:
        rules = with_settings(rules, selection=override)
    assert rules.settings.selection == expected
    again = with_settings(rules, episodes=7)
    assert again.settings.selection == expected
    # As a saved run does it.
    saved = json.loads(json.dumps(rules.settings.model_dump()))
    assert with_settings(parse(rules.text, "few"), **saved).settings == rules.settings


def test_wrong_selections_from_the_command_line() -> None:
    rules = parse(f"{HEAD}settings: {{selection: maximum_return}}\n{ONE}", "few.yaml")
    wrong: list[tuple[Any, str]] = [
        (3, "few, settings.selection: expected everywhere, maximum_return or maximum_deviation"),
        ("everwhere", "but got 'everwhere'. Did you mean 'everywhere'?"),
        ({"prove": True}, "few, settings.selection.prove: unknown key 'prove' in selection 'max"),
        ({"points": 0}, "few, settings.selection.points: expected greater than or equal to 1, but"),
    ]
    for override, message in wrong:
        with pytest.raises(InvalidRulebook, match=re.escape(message)):
            with_settings(rules, selection=override)


FOUR = "observations: [x, x_dot, phi, phi_dot]\n"
ENVIRONMENTS = [
    ("CartPol-v1", "", "line 1, environment: Gymnasium knows no environment 'CartPol-v1'. Close"),
    ("CartPole-v99", "", "line 1, environment: Gymnasium knows no environment 'CartPole-v99'."),
    ("Qzqzqz-v0", "", "no environment 'Qzqzqz-v0'. If a module"),
    ("Pendulum-v1", "", "line 2, observations: this file names 4 observations (x,"),
    ("Acrobot-v1", "", "line 2, observations: this file names 4 observations (x,"),
    ("{id: CartPole-v1, options: {colour: red}}", "", "line 1, environment: Gymnasium cannot make"),
    (
        "CartPole-v1",
        "left, right, up",
        "actions: this file names 3 actions (left, right, up), but CartPole-v1 has 2.",
    ),
    (
        "Handrail/Test0-v0",
        "",
        "line 3, actions: this file names discrete actions, but Handrail/Test0-v0 has",
    ),
    (
        "Handrail/Test0-v0",
        "{a: [0, 2]}",
        "the ranges [0, 2], but Handrail/Test0-v0 acts in [0, 1]. Write",
    ),
    (
        "Handrail/Test0-v0",
        "{a: [0, 1], b: [0, 1]}",
        "names 2 actions (a, b), but Handrail/Test0-v0 has 1. Name",
    ),
    (
        "CartPole-v1",
        "{a: [0, 1]}",
        "gives ranges of continuous actions, but CartPole-v1 has 2 disc",
    ),
    (
        "Handrail/Test4-v0",
        "",
        "acts in MultiDiscrete([2 2]), but constraints need Discrete actions",
    ),
    ("Handrail/Test3-v0", "", "line 1, environment: Handrail/Test3-v0 observes Discrete(5), but"),
    ("Handrail/Test1-v0", "", "the actions of Handrail/Test1-v0 are numbered from 3, not from 0."),
]


class Odd(gym.Env[Any, Any]):
    """Spaces to order."""

    def __init__(self, **options: Any) -> None:
        self.observation_space = options["observations"]
        self.action_space = options["actions"]
        self.render_mode = options.get("render_mode")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.full((2, 2), 0.5, dtype=np.float32), {}


@pytest.fixture
def odd_environments() -> Iterator[None]:
    square, two = gym.spaces.Box(0.0, 1.0, (2, 2)), gym.spaces.Discrete(2)
    spaces: list[tuple[gym.Space[Any], gym.Space[Any]]] = [
        (square, gym.spaces.Box(0.0, 1.0, (1,))),
        (square, gym.spaces.Discrete(2, start=3)),
        (square, two),
        (gym.spaces.Discrete(5), two),
        (square, gym.spaces.MultiDiscrete([2, 2])),
    ]
    for number, (observations, actions) in enumerate(spaces):
        options = {"observations": observations, "actions": actions}
        gym.register(f"Handrail/Test{number}-v0", Odd, kwargs=options)
    yield
    for number in range(len(spaces)):
        gym.registry.pop(f"Handrail/Test{number}-v0")


@pytest.mark.usefixtures("odd_environments")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("environment", "actions", "message"), ENVIRONMENTS)
def test_environments_that_do_not_fit(environment: str, actions: str, message: str) -> None:
    named = actions if actions.startswith("{") else f"[{actions or 'left, right'}]"
    one = re.sub(r"\b(left|right)\b", "a", ONE) if actions.startswith("{") else ONE
    rules = parse(f"environment: {environment}\n{FOUR}actions: {named}\n{one}", "env.yaml")
    with pytest.raises(InvalidRulebook, match=re.escape(message)) as caught:
        rules.make_environment()
    assert str(caught.value).startswith("env.yaml, line ")


@pytest.mark.usefixtures("odd_environments")
def test_observations_are_flat() -> None:
    rules = parse(f"environment: Handrail/Test2-v0\n{FOUR}actions: [left, right]\n{ONE}", "e.yaml")
    env = rules.make_environment()
    assert env.observation_space.shape == (4,)
    assert env.reset()[0].shape == (4,)
    env.close()


# Bundled files


# Box2D's own, when Lunar Lander imports it.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", bundled())
def test_bundled_files_load_and_fit_their_environments(name: str) -> None:
    rules = load_rulebook(name)
    assert rules.name == name
    assert rules.description
    assert load_rulebook(f"{name}.yaml").sentences == rules.sentences
    assert parse(rules.text, rules.name).sentences == rules.sentences
    rules.make_environment().close()
    concatenate([constraint.rows(len(rules.actions)) for constraint in rules.constraints])


def test_a_file_in_the_way_of_a_bundled_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cartpole").mkdir()
    assert load_rulebook("cartpole").pass_mark == 195.0
    (tmp_path / "cartpole.yaml").write_text(HEAD + ONE)
    assert load_rulebook(Path("cartpole.yaml")).pass_mark == 475.0  # Gymnasium's own


@pytest.mark.parametrize(("name", "kind"), [("cartpole", AtLeast), ("cartpole_equality", Equal)])
def test_cartpole_is_the_papers(name: str, kind: type[hr.Constraint]) -> None:
    rules = load_rulebook(name)
    assert all(type(constraint) is kind for constraint in rules.constraints)
    found = concatenate([constraint.rows(2) for constraint in rules.constraints])
    expected = concatenate([constraint.rows(2) for constraint in cartpole.constraints()])
    np.testing.assert_array_equal(found.states, expected.states)
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.lower, expected.lower)
    assert found.labels == expected.labels
    np.testing.assert_array_equal(found.upper, found.lower if kind is Equal else expected.upper)
    assert rules.environment.max_episode_steps == 200
    assert rules.observations == cartpole.OBSERVATIONS
    assert rules.sentences[0].startswith(
        f"push right: right {'==' if kind is Equal else '>='} 0.95"
    )
    assert rules.sentences[0].endswith("(x from -2 to 2, x_dot 0, phi 0.25, phi_dot 0.05)")


def test_cartpole_regions_are_the_papers() -> None:
    rules = load_rulebook("cartpole_regions")
    # (phi, phi_dot): the paper's appendix C, second table.
    upper = [
        [(-0.4, 0.4), (-0.3, 0.4), (-0.267, 0.133), (-0.4, 0.133)],
        [(-0.4, 0.133), (-0.267, 0.133), (-0.233, -0.133), (-0.4, -0.133)],
        [(-0.4, -0.133), (-0.233, -0.133), (-0.2, -0.4), (-0.4, -0.4)],
    ]
    lower = [
        [(0.4, -0.4), (0.2, -0.4), (0.167, -0.133), (0.4, -0.133)],
        [(0.4, -0.133), (0.167, -0.133), (0.133, 0.133), (0.4, 0.133)],
        [(0.4, 0.133), (0.133, 0.133), (0.1, 0.4), (0.4, 0.4)],
    ]
    others: dict[int, float | tuple[float, float]] = {0: (-2.5, 2.5), 1: 0.0}
    expected: list[hr.Constraint] = [
        AtLeast(0.95, cartpole.LEFT, Polytope(vertices, [2, 3], others)) for vertices in upper
    ]
    expected += [
        AtMost(0.05, cartpole.LEFT, Polytope(vertices, [2, 3], others)) for vertices in lower
    ]
    assert told(rules.constraints) == told(expected)
    assert rules.environment.max_episode_steps == 200
    assert rules.settings.selection == Everywhere(prove=True)
    assert rules.pass_mark == 195.0


def test_cartpole_disks_are_the_papers() -> None:
    rules = load_rulebook("cartpole_disks")
    disks = {centre: Ball([0, 0, *centre], 0.05, [2, 3]) for centre in CENTRES}
    expected = [
        AtLeast(0.95, cartpole.LEFT, disk)
        if centre in ((-0.2, -0.2), (0.2, 0.2))
        else AtMost(0.05, cartpole.LEFT, disk)
        for centre, disk in disks.items()
    ]
    assert told(rules.constraints) == told(expected)
    assert rules.settings.selection == Everywhere()
    assert rules.settings.episodes == 10


CENTRES = [(-0.2, -0.2), (-0.2, 0.2), (0.2, -0.2), (0.2, 0.2)]


def told(constraints: Sequence[hr.Constraint]) -> list[Any]:
    """What constraints on regions say, apart from their names."""
    return [
        (type(rule), rule.bound, rule.action, rule.region and rule.region.describe())
        for rule in constraints
        if isinstance(rule, AtLeast | AtMost)
    ]


# x, y, the printed velocity, phi, l, action: the paper's appendix C, third table, as printed.
LANDER = [
    (0, 0, 0, 0, 1, 0),
    (0, 0.9, -1, 0, 0, 2),
    (0, 0.5, -0.75, 0, 0, 2),
    (0, 0.2, -0.5, 0, 0, 2),
    (0, 0.1, -0.5, 0, 0, 2),
    (0, 1, 0, -0.25, 0, 1),
    (0, 1, 0, 0.25, 0, 3),
    (0, 0.5, 0, -0.25, 0, 1),
    (0, 0.5, 0, 0.25, 0, 3),
    (0.3, 1.3, 0.1, 0, 0, 1),
    (-0.3, 1.3, -0.1, 0, 0, 3),
]


@pytest.mark.parametrize("name", ["lunar_lander", "lunar_lander_literal"])
def test_lunar_lander_is_the_papers(name: str) -> None:
    rules = load_rulebook(name)
    found = {
        (*state.tolist(), int(np.flatnonzero(weights).item()))
        for constraint in rules.constraints
        for state, weights in zip(constraint.states, constraint.rows(4).weights, strict=True)
    }
    expected = set()
    for index, (x, y, velocity, phi, leg, action) in enumerate(LANDER):
        horizontal = index >= 9 and name == "lunar_lander"
        x_dot, y_dot = (velocity, 0) if horizontal else (0, velocity)
        expected.add((x, y, x_dot, y_dot, phi, 0, leg, leg, action))
    assert found == expected
    assert sum(len(constraint.states) for constraint in rules.constraints) == 11
    assert {getattr(constraint, "bound", None) for constraint in rules.constraints} == {0.95}
    assert rules.pass_mark == 200.0


# Schema and docs


BOX = {"x": [0, 1], "x_dot": 0, "phi": 0, "phi_dot": 0}
BALL = {"of": ["x"], "centre": [0], "radius": 1}
CURVE = {"from": 0, "to": 1, "phi": "t"}
REGION = {"name": "a", "region": BOX, "require": "left >= 0.5"}
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


@pytest.mark.parametrize("name", bundled())
def test_bundled_files_fit_the_schema(name: str) -> None:
    VALIDATOR.validate(load_rulebook(name).source.data)


@pytest.mark.parametrize(
    "change",
    [
        {"environment": 3},
        {"environment": {"max_episode_steps": 5}},
        {"observations": "x"},
        {"observations": ["pole angle"]},
        {"actions": ["left"]},
        {"actions": {"torque": [-2, 2, 3]}},
        {"actions": {"1bad": [-2, 2]}},
        {"constraints": []},
        {"constraints": [{"name": "a", "require": "left >= 0.5"}]},
        {"constraints": [{"name": "a", "where": {"x": "zero"}}]},
        {"constraints": [{"name": "a", "where": {"x": {"from": 0, "to": 1}}}]},
        {"constraints": [{"name": "a", "where": {"x": 0}, "require": 3}]},
        {"constraints": [REGION | {"where": {"x": 0}}]},
        {"constraints": [REGION | {"table": "x"}]},
        {"constraints": [REGION | {"region": [BOX]}]},
        {"constraints": [REGION | {"region": BOX | {"x": [0, 1, 2]}}]},
        {"constraints": [REGION | {"region": BOX | {"x": "t"}}]},
        {"constraints": [REGION | {"region": BOX | {"ball": {"of": ["x"], "centre": [0]}}}]},
        {"constraints": [REGION | {"region": BOX | {"ball": BALL, "curve": CURVE}}]},
        {"constraints": [REGION | {"region": BOX | {"polytope": {"of": ["x", "phi"]}}}]},
        {"constraints": [REGION | {"region": BOX | {"curve": CURVE | {"phi": [0]}}}]},
        {"settings": {"selection": "maximum"}},
        {"settings": {"selection": {"strategy": "maximum_return", "prove": True}}},
        {"settings": {"step_size": 0}},
        {"settings": {"network": {"activation": "rellu"}}},
        {"pass_mark": "high"},
        {"pasmark": 3},
    ],
)
def test_wrong_types_do_not_fit_the_schema(change: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(load_rulebook("cartpole").source.data | change)


def test_the_schema_is_sound_described_and_published() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    models = [json_schema(), *json_schema()["$defs"].values()]
    assert all(field["description"] for model in models for field in model["properties"].values())
    published = json.loads((ROOT / "docs" / "reference" / "constraints.schema.json").read_text())
    assert published == json_schema(), (
        "run: handrail schema > docs/reference/constraints.schema.json"
    )


def test_yaml_in_the_docs_is_correct() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    complete = [block for block in blocks if "environment:" in block]
    assert len(complete) >= 2
    for block in complete:
        rules = parse(block, "docs.yaml")
        VALIDATOR.validate(rules.source.data)
        rules.make_environment().close()
    for block in blocks:
        assert read(block, "docs.yaml").data
    regions = [
        read(block, "docs.yaml").data["region"] for block in blocks if "\nregion:" in f"\n{block}"
    ]
    assert len(regions) >= 6
    for region in regions:
        parse(in_region(json.dumps(region)), "docs.yaml")
    changes = [block for block in blocks if block.startswith("settings:")]
    assert len(changes) >= 3
    for block in changes:
        parse(HEAD + block + ONE, "docs.yaml")


def test_the_docs_list_every_setting_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `([\w.]+)` \| `(.*?)` \|", PAGE.read_text(), re.MULTILINE))
    fields = {**RunSettings.model_fields}
    network = fields.pop("network").default
    selection = fields.pop("selection").default
    defaults = {name: field.default for name, field in fields.items()}
    defaults["selection"] = selection.strategy
    for model in (Everywhere, MaximumReturn, MaximumDeviation):
        options = {f"selection.{name}": value for name, value in model().model_dump().items()}
        options.pop("selection.strategy")
        defaults |= options
    defaults |= {f"network.{name}": value for name, value in network.model_dump().items()}
    assert {name: yaml.load(text, yaml.BaseLoader) for name, text in rows.items()} == {
        name: yaml.load(json.dumps(value), yaml.BaseLoader) for name, value in defaults.items()
    }


def test_the_docs_quote_a_real_error_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    check = load_script("docs/check.py")
    assert check.run_examples(PAGE) >= 2
    assert check.broken_links(PAGE) == []
    quoted = re.search(r"^```\n(push\.yaml, line .*?)^```", PAGE.read_text(), re.M | re.S)
    assert quoted is not None
    assert quoted[1] in capsys.readouterr().out


# One way to give constraints, to every verb

BATCH = hr.Batch(np.array([[0.0, 0.0, 0.1, 0.0]]), np.array([1]), np.array([1.0]))


def exported(policy: hr.Policy, given: Any) -> object:
    with TemporaryDirectory() as folder:
        return hr.export_numpy(policy, Path(folder) / "policy.npz", given).report


VERBS: dict[str, Callable[[hr.Policy, Any], object]] = {
    "measure": lambda policy, given: hr.measure(policy, given).violations.tolist(),
    "diagnose": lambda policy, given: str(hr.diagnose(policy, given)),
    "enforce": lambda policy, given: hr.enforce(policy, given).worst_violation,
    "edit": lambda policy, given: hr.edit(policy, given).relative_change,
    "certify": lambda policy, given: [one.lowest for one in hr.certify(policy, given)],
    "safe_returns": lambda policy, given: hr.safe_returns(policy, BATCH, given, 1e-3).multipliers[
        0
    ],
    "evaluate": lambda policy, given: str(hr.evaluate(policy, "CartPole-v1", given, episodes=1)),
    "Reinforce": lambda policy, given: str(hr.Reinforce("CartPole-v1", policy, given)),
    "export_numpy": exported,
    "constraints_of": lambda policy, given: [one.name for one in constraints_of(given, policy)],
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_a_list_a_rulebook_a_path_or_a_name(verb: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(load_rulebook("cartpole").text, encoding="utf-8")
    rules = load_rulebook("cartpole")
    answers = [
        VERBS[verb](hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=(64,), seed=1), given)
        for given in (list(rules.constraints), rules, "cartpole", "cartpole.yaml", file, str(file))
    ]
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_a_file_about_another_environment(verb: str) -> None:
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=(8,), seed=1)
    message = r"acrobot names 6 observations \(cos1, .*environment \(Acrobot-v1\)\?"
    with pytest.raises(InvalidRulebook, match=message):
        VERBS[verb](policy, "acrobot")
    with pytest.raises(InvalidRulebook, match=r"'cartpool' does not exist.*Did you mean 'cartpole"):
        VERBS[verb](policy, "cartpool")


def test_a_file_with_another_kind_or_number_of_actions() -> None:
    rules = load_rulebook("cartpole")
    three = hr.CategoricalPolicy(nn.Linear(4, 3))
    with pytest.raises(InvalidRulebook, match=r"names 2 actions \(left.*the policy has 3"):
        constraints_of(rules, three)
    continuous = hr.GaussianPolicy(nn.Linear(4, 1), std=1.0)
    with pytest.raises(InvalidRulebook, match="discrete actions, but the policy has 1 contin"):
        constraints_of(rules, continuous)
    constraints_of(rules, hr.CategoricalPolicy(nn.Linear(4, 2)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (AtLeast(0.9, 0, hr.Points([0.0] * 4), "alone"), "the single AtLeast 'alone'. Write [con"),
        (7, "or the path or bundled name of a constraint file, but got int."),
        (iter([]), "but got list_iterator."),
    ],
)
def test_what_is_no_list_of_constraints(given: Any, message: str) -> None:
    policy = hr.CategoricalPolicy(nn.Linear(4, 2))
    for verb in ("measure", "diagnose", "enforce", "edit", "constraints_of"):
        with pytest.raises(hr.errors.InvalidConstraint, match=re.escape(message)):
            VERBS[verb](policy, given)


def test_certify_takes_one_or_many() -> None:
    rules = load_rulebook("cartpole")
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=(64,), seed=1)
    hr.enforce(policy, rules)
    one, many = hr.certify(policy, rules.constraints[0]), hr.certify(policy, rules, tolerance=1e-6)
    assert isinstance(one, hr.Certificate)
    assert isinstance(many, hr.Certificates)
    assert [each.name for each in many] == [each.name for each in rules.constraints]
    assert many.certified
    assert many.worst_violation <= 1e-6
    assert many[0].name == one.name
    assert len(many[:2]) == 2
    assert str(many).startswith(f"{len(many)} of {len(many)} certified")
    with pytest.raises(hr.errors.InvalidConstraint, match="The list of constraints is empty"):
        hr.certify(policy, [])
