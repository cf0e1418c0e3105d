"""Every bad file, refused with its line; and what is wrong in the order of the file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from handrail.errors import InvalidRulebook
from handrail.rulebook import (
    load_rulebook,
    parse,
)
from tests.support.constraint_files import (
    HEAD,
    ONE,
)

BAD = sorted((Path(__file__).parent / "bad").glob("*.yaml"))


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
        assert re.match(rf"{re.escape(file.name)}, line \d+(, [\w .\[\]]+)?: \S", line)
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
    assert "line 6: unknown action or observation 'lefd'" in str(caught.value)


def test_a_spread_of_discrete_actions_is_refused() -> None:
    text = HEAD + "settings: {network: {std: 0.2}}\n" + ONE
    line = text[: text.index("std")].count("\n") + 1
    message = f"few.yaml, line {line}, settings.network.std: it is how widely continuous actions"
    with pytest.raises(InvalidRulebook, match=re.escape(message)):
        parse(text, "few.yaml")
