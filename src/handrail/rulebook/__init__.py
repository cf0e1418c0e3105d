"""Constraint files: an environment, its names, constraints and settings, in one YAML file."""

from handrail.rulebook.environment import EnvironmentSpec
from handrail.rulebook.picture import Picture
from handrail.rulebook.requirement import Actions
from handrail.rulebook.rulebook import (
    AnyConstraints,
    Rulebook,
    Stated,
    bundled,
    load_rulebook,
    parse,
    with_settings,
)
from handrail.rulebook.schema import json_schema

__all__ = [
    "Actions",
    "AnyConstraints",
    "EnvironmentSpec",
    "Picture",
    "Rulebook",
    "Stated",
    "bundled",
    "json_schema",
    "load_rulebook",
    "parse",
    "with_settings",
]
