"""Scripts of the repository that are no package: those of the docs, and the examples."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from tests.support.paths import ROOT


def load_script(path: str) -> ModuleType:
    """The module in a file, named from the repository's root."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and Gymnasium look their module up
    spec.loader.exec_module(module)
    return module
