"""What the package says about itself: its version, and how its faces load their names.

A lazy face (PEP 562) loads a name when it is first asked for, so that `import handrail` costs next
to nothing and a command that needs no network does not wait for torch. Such a face lists its names
twice: as imports under TYPE_CHECKING, for type checkers, and as a table for the interpreter. A test
compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

VERSION = "0.1.0"  # saved runs and certificates name it


def lazy_face(
    package: str, homes: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that has an `__all__`.

    Args:
        package: its name.
        homes: its names, by the module of the package that has them.
        modules: that are names themselves.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> object:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)  # asked for once
        return value

    def public() -> list[str]:
        names: list[str] = sys.modules[package].__all__
        return names

    return get, public
