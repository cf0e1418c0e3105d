"""Every answer, as a person at a prompt or in a notebook meets it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import handrail as hr
from handrail.constraints import (
    bound_in_words,
    counted,
    expand,
    html_table,
    listed,
    state_in_words,
)
from handrail.enforcement import Conflict, given_references, impossible_at_one_state
from tests.conftest import small_policy

HOSTILE = "<script>alert('a')</script> & [red]b[/red]"
BOX = hr.Box([-1.0, -1.0, 0.0], [1.0, 1.0, 0.5])


def test_numbers_with_their_nouns() -> None:
    assert counted(1, "iteration") == "1 iteration"
    assert counted(0, "iteration") == "0 iterations"
    assert counted(12000, "state") == "12,000 states"
    assert listed(["a"]) == "'a'"
    assert listed(["a", "b", "c"]) == "'a', 'b' and 'c'"
    assert listed(["a", "b", "c", "d"], at_most=2) == "'a', 'b' and 2 others"
    assert listed(["a", "b", "c"], at_most=2) == "'a', 'b' and 1 other"


def test_bounds_and_states() -> None:
    pairs = ((0.5, 0.5), (-0.0, 0.0), (0.5, np.inf), (-np.inf, 0.5), (0.2, 0.4))
    words = [bound_in_words(*pair) for pair in pairs]
    assert words == ["= 0.5", "= 0", "≥ 0.5", "≤ 0.5", "0.2 … 0.4"]
    assert state_in_words(np.array([0.0, 0.25])) == "(0, 0.25)"
    assert state_in_words(np.zeros(13)) == "array (13,)"
    names = ("x", "phi")
    assert state_in_words(np.array([[1.23456, -0.25]]), names) == "(x = 1.23, phi = -0.25)"
    assert state_in_words(np.zeros(13), tuple("abcdefghijklm")) == "array (13,)"


class Reader(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_table_escapes_everything() -> None:
    page = Reader(html_table(HOSTILE, [(HOSTILE, "1")], (HOSTILE, "n"), HOSTILE))
    assert set(page.tags) == {"div", "p", "table", "tr", "th", "td"}
    assert page.text.count(HOSTILE) == 4
    assert Reader(html_table("a\nb", [])).tags == ["div", "p", "br"]


def rules(name: str = HOSTILE) -> list[hr.Constraint]:
    return [
        hr.AtLeast(0.9, 1, hr.Points([[0.1, 0.2, 0.3], [0.4, 0.4, 0.4]]), name=name),
        hr.AtMost(0.6, 0, BOX, name="region"),
    ]


def obeying() -> tuple[Any, hr.Enforcement]:
    policy = small_policy()
    return policy, hr.enforce(policy, rules(), references=BOX.cover(50) + 2.0, prove=True)


def a_batch() -> hr.Batch:
    return hr.Batch(states=BOX.cover(5), actions=[0, 1, 2, 0, 1], returns=[1.0] * 5)


def a_conflict() -> Conflict:
    at = hr.Points([0.1, 0.2, 0.3])
    both = [hr.AtLeast(0.6, 0, at, name=HOSTILE), hr.AtLeast(0.6, 1, at, name="other")]
    rows = expand(both, small_policy()).fixed
    assert rows is not None
    found = impossible_at_one_state(rows)
    assert found is not None
    return found


def not_proven() -> hr.Certificate:
    policy, _ = obeying()
    lowest = float(policy.outputs(BOX.cover(5000))[:, 0].min())
    rule = hr.AtLeast(lowest - 1e-9, 0, BOX, name=HOSTILE)
    return hr.certify(policy, rule, budget=hr.Budget(cells=1))


ANSWERS: dict[str, Callable[[], Any]] = {
    "measure": lambda: hr.measure(small_policy(), rules()),
    "measure, obeying": lambda: hr.measure(obeying()[0], rules()),
    "enforce": lambda: obeying()[1],
    "enforce, nothing to do": lambda: hr.enforce(obeying()[0], rules()[:1]),
    "enforce, failed": lambda: hr.enforce(
        small_policy(), [*rules()[:1], hr.AtMost(0.2, 1, hr.Points([0.1, 0.2, 0.3]), name="no")]
    ),
    "edit": lambda: hr.edit(small_policy(), rules()),
    "edit, nothing to do": lambda: hr.edit(obeying()[0], rules()),
    "edit, refused": lambda: hr.edit(small_policy(), rules(), max_change=0.0),
    "influence": lambda: hr.edit(small_policy(), rules()).influence,
    "diagnose": lambda: hr.diagnose(small_policy(), rules()),
    "safe returns": lambda: hr.safe_returns(small_policy(), a_batch(), rules(), 0.01),
    "certified": lambda: obeying()[1].certificates[0],
    "counterexample": lambda: hr.certify(small_policy(), hr.AtLeast(0.9, 1, BOX, name=HOSTILE)),
    "unknown": not_proven,
    "conflict": a_conflict,
    "references": lambda: given_references(BOX.cover(900) + 5.0, rules()),
}
answer = cache(lambda name: ANSWERS[name]())


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_short_and_says_what_it_is(name: str) -> None:
    found = answer(name)
    assert repr(found).startswith(f"<{type(found).__name__}: ")
    assert len(repr(found)) < 400
    assert len(str(found)) < 5000
    assert "array(" not in str(found) + repr(found)


@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "references"])
def test_an_answer_is_a_harmless_table_in_a_notebook(name: str) -> None:
    page = Reader(answer(name)._repr_html_())
    assert set(page.tags) <= {"div", "p", "br", "table", "tr", "th", "td"}
    assert len(page.text) > 20


def test_what_is_said() -> None:
    assert (
        str(answer("measure, obeying")).splitlines()[0].startswith("1,002 constraint rows within")
    )
    text = str(answer("enforce"))
    assert text.startswith("Every constraint holds after ")
    assert "On 50 reference states (given): the largest change of a probability is 0." in text
    assert "Proven at every state of 1 region. Not proven, but measured at each of their" in text
    assert str(answer("enforce, nothing to do")).startswith("Every constraint held already: worst")
    failed = str(answer("enforce, failed"))
    assert failed.startswith("Not every constraint could be held; the policy is as it was. ")
    assert "do not exist together" in failed
    assert repr(answer("measure")).startswith(
        "<Violations: 2 of 1,002 constraint rows beyond their bounds, "
    )
    edited = str(answer("edit"))
    assert edited.startswith("2 of 1,002 constraint rows violated before, none now. On 2,129 ")
    assert "Every constraint holds already" in str(answer("edit, nothing to do"))
    assert repr(answer("edit, refused")) == "<Edit: refused, policy unchanged>"
    assert ": no conflict" in str(answer("diagnose"))
    assert "for a step of 0.01, the largest " in str(answer("safe returns"))
    assert HOSTILE in str(answer("conflict"))


def test_what_a_certificate_says_was_proven() -> None:
    certified = answer("certified")
    said = float(str(certified).split("never above ")[1].split(". ")[0])
    assert certified.highest <= said <= certified.highest + 1e-6
    assert str(certified).startswith("'region' (≤ 0.6) holds at every state: never above ")
    assert re.search(r"\. \d+ cells? by vertex bound, [\d.e-]+ s\.$", str(certified))
    at_points = hr.certify(small_policy(), hr.AtLeast(0.01, 0, hr.Points([0.0, 0.0, 0.0])))
    assert re.search(r"\. By evaluation, [\d.e-]+ s\.$", str(at_points))
    found = answer("counterexample")
    assert f"{found.violation:.2g} at ({found.state[0]:g}, " in str(found)
    assert "(≥ 0.9) does not hold: it is violated by " in str(found)
    assert "is not known: " in str(answer("unknown"))
    assert answer("unknown").reason in str(answer("unknown"))


def test_names_are_no_markup_in_a_terminal() -> None:
    assert "[red]b[/red]" in str(hr.measure(small_policy(), rules("[red]b[/red]")))
