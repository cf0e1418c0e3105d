"""Messages: what is none is refused, and both sides call everything the same."""

from __future__ import annotations

import inspect
import json
import re
from importlib import resources

import pytest
from pydantic import BaseModel, ValidationError

from handrail.studio import messages
from handrail.studio.messages import EditValues, Held, packed, parsed

PAGE = resources.files("handrail.studio") / "page"


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


def test_numbers_keep_every_digit_and_what_is_none_is_null() -> None:
    held = Held(
        revision=1,
        satisfied=True,
        words="",
        influence="",
        verdicts=[{"entry": 0, "status": "holds", "violation": -1 / 3}],  # type: ignore[list-item]
        seconds=float("inf"),
    )
    said = json.loads(packed(held))
    assert said["verdicts"][0]["violation"] == -1 / 3
    assert said["seconds"] is None


def test_the_page_and_the_server_call_everything_the_same() -> None:
    text = PAGE.joinpath("types.js").read_text("utf-8")
    written = {
        name: set(re.findall(r"(\w+):", body))
        for body, name in re.findall(r"@typedef \{(\{.*\})\} (\w+) \*/", text)
    }
    models = dict(inspect.getmembers(messages, inspect.isclass))
    assert {"Document", "Drawing", "Held", "ProofSeen", "Shape"} <= written.keys()
    for name, fields in written.items():
        model = models[name]
        assert issubclass(model, BaseModel)
        assert set(model.model_fields) == fields, name
