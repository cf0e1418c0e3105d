"""Constraint files: an environment, its names, constraints and settings, in one YAML file."""

from handrail.rulebook.environments import EnvironmentSpec
from handrail.rulebook.files import bundled, load
from handrail.rulebook.format import schema
from handrail.rulebook.pictures import Picture
from handrail.rulebook.rulebook import Rulebook, parse, with_settings

__all__ = [
    "EnvironmentSpec",
    "Picture",
    "Rulebook",
    "bundled",
    "load",
    "parse",
    "schema",
    "with_settings",
]
