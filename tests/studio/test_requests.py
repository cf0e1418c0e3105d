"""Requests: what is none is refused before anything is done with it."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from handrail.studio.requests import EditValues, parsed


@pytest.mark.parametrize(
    "message",
    [
        "",
        "null",
        "[]",
        '{"kind": "rm -rf"}',
        '{"kind": "undo", "more": 1}',
        '{"kind": "edit", "values": []}',
        '{"kind": "edit", "values": [{"path": ["a"], "value": 1e999}]}',
        '{"kind": "edit", "values": [{"path": [], "value": 1}]}',
        '{"kind": "add", "shape": "box", "points": [[1, 2, 3]]}',
        '{"kind": "probe", "state": ["x"]}',
        json.dumps({"kind": "text", "text": "x" * 1_000_001}),
        b"\xff\xfe",
    ],
)
def test_what_is_no_message_is_refused(message: str | bytes) -> None:
    with pytest.raises(ValidationError):
        parsed(message)


def test_a_message_is_what_the_page_sends() -> None:
    sent = '{"kind": "edit", "values": [{"path": ["constraints", 0, "name"], "value": "a"}]}'
    request = parsed(sent)
    assert isinstance(request, EditValues)
    assert request.values[0].path == ["constraints", 0, "name"]
