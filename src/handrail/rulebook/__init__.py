"""Constraint files: an environment, its names, constraints and settings, in one YAML file.

The face is lazy: the schema and the list of bundled files need neither torch nor scipy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail._package import lazy_face

if TYPE_CHECKING:
    from handrail.rulebook.catalogue import Overview as Overview
    from handrail.rulebook.catalogue import bundled as bundled
    from handrail.rulebook.catalogue import overviews as overviews
    from handrail.rulebook.catalogue import read_file as read_file
    from handrail.rulebook.declared_observations import (
        DeclaredObservations as DeclaredObservations,
    )
    from handrail.rulebook.environment import EnvironmentSpec as EnvironmentSpec
    from handrail.rulebook.environment import states_outside as states_outside
    from handrail.rulebook.picture import Picture as Picture
    from handrail.rulebook.requirement import DeclaredActions as DeclaredActions
    from handrail.rulebook.rulebook import AnyConstraints as AnyConstraints
    from handrail.rulebook.rulebook import Rulebook as Rulebook
    from handrail.rulebook.rulebook import constraints_of as constraints_of
    from handrail.rulebook.rulebook import load_constraints as load_constraints
    from handrail.rulebook.rulebook import load_rulebook as load_rulebook
    from handrail.rulebook.rulebook import observation_names as observation_names
    from handrail.rulebook.rulebook import parse as parse
    from handrail.rulebook.rulebook import with_settings as with_settings
    from handrail.rulebook.schema import json_schema as json_schema
    from handrail.rulebook.source import KeyPath as KeyPath
    from handrail.rulebook.source import Source as Source
    from handrail.rulebook.source import TextSpan as TextSpan
    from handrail.rulebook.source import read as read
    from handrail.rulebook.source import read_value as read_value
    from handrail.rulebook.states_file import Files as Files
    from handrail.rulebook.states_file import digests as digests

_NAMES = {
    "catalogue": ("Overview", "bundled", "overviews", "read_file"),
    "declared_observations": ("DeclaredObservations",),
    "environment": ("EnvironmentSpec", "states_outside"),
    "picture": ("Picture",),
    "requirement": ("DeclaredActions",),
    "rulebook": (
        "AnyConstraints",
        "Rulebook",
        "constraints_of",
        "load_constraints",
        "load_rulebook",
        "observation_names",
        "parse",
        "with_settings",
    ),
    "schema": ("json_schema",),
    "source": ("KeyPath", "Source", "TextSpan", "read", "read_value"),
    "states_file": ("Files", "digests"),
}

__all__ = sorted(name for names in _NAMES.values() for name in names)  # noqa: PLE0605

__getattr__, __dir__ = lazy_face(__name__, _NAMES)
