"""Small constraint files."""

from __future__ import annotations

import json

import jsonschema

from handrail._types import Array
from handrail.errors import InvalidRulebook
from handrail.rulebook import (
    Rulebook,
    parse,
)
from handrail.rulebook.schema import json_schema

HEAD = """
environment: CartPole-v1
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
"""

ONE = "constraints: [{name: a, where: {x: 0, x_dot: 0, phi: 0, phi_dot: 0}, require: left >= 0.5}]"

PLACE = "    where: {x: 0, x_dot: 0, phi: 0, phi_dot: 0}\n"

VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def book(constraints: str, head: str = HEAD) -> Rulebook:
    return parse(head + constraints, "test.yaml")


def rule(where: str, require: str = "right >= 0.95") -> Rulebook:
    return book(f"constraints:\n  - name: a\n    require: {require}\n{where}")


def states(where: str) -> Array:
    (constraint,) = rule(where).constraints
    return constraint.states


def refusal(text: str) -> str:
    try:
        parse(text, "any.yaml")
    except InvalidRulebook as error:
        return str(error)
    return ""


def parses_or_is_refused(text: str) -> None:
    message = refusal(text)
    assert not message or message.startswith("any.yaml, line ")


def in_region(region: str, require: str = "right >= 0.95") -> str:
    return f"{HEAD}constraints: [{{name: a, region: {region}, require: {json.dumps(require)}}}]"
