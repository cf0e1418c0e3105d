"""Messages: both sides call everything the same, and numbers keep every digit."""

from __future__ import annotations

import inspect
import json
import re
from importlib import resources

from pydantic import BaseModel

from handrail.studio import messages
from handrail.studio.messages import Held, packed

PAGE = resources.files("handrail.studio") / "page"


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
