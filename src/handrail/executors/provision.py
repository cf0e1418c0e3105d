"""What a machine must have for tasks of ours: the same versions, and the user's own modules."""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

from handrail._package import VERSION
from handrail.errors import InvalidArgument

_COMPUTING = ("torch", "numpy", "gymnasium")
_MOST = 2**26  # bytes of modules that are sent
_INSTALLED = tuple(
    Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def computing_versions() -> dict[str, str]:
    """Of what numbers depend on: other versions may compute other ones."""
    installed = {name: metadata.version(name) for name in _COMPUTING}
    return {"python": platform.python_version(), **installed}


def versions_here() -> dict[str, str]:
    """All that must be the same wherever tasks of one command are done."""
    return {"handrail": VERSION, **computing_versions()}


def refuse_other_versions(there: Mapping[str, str], place: str) -> None:
    """Bit for bit the same results come from the same versions alone."""
    here = versions_here()
    other = [
        f"{name} {there.get(name, 'not at all')} (here: {here[name]})"
        for name in here
        if there.get(name) != here[name]
    ]
    if other:
        raise InvalidArgument(
            f"{place} has {', '.join(other)}. Other versions compute other numbers: install the "
            "same ones there as here."
        )


def refuse_missing(package: str, extra: str) -> None:
    """Before anything is begun."""
    if find_spec(package) is None:
        raise InvalidArgument(
            f"{package} is not installed, and this place needs it: pip install 'handrail[{extra}]'."
        )


def module_files(modules: Sequence[str]) -> dict[str, bytes]:
    """The files of modules that are installed nowhere, to be put into a folder on `sys.path`.

    With them come the modules that lie beside them and are loaded: those that they import. What
    is installed here (site-packages) has to be installed there as well.
    """
    for module in modules:
        import_module(module)
    roots = {_root(module.partition(".")[0]) for module in modules} - {None}
    files: dict[str, bytes] = {}
    for top in sorted({name.partition(".")[0] for name in sys.modules}):
        root = _root(top)
        if root in roots and root is not None and top not in {"handrail", "__main__"}:
            files |= {
                one.relative_to(root).as_posix(): one.read_bytes() for one in _files(top, root)
            }
    size = sum(map(len, files.values()))
    if size > _MOST:
        raise InvalidArgument(
            f"{', '.join(modules)}: the files to send along have {size:,} bytes, and "
            f"{_MOST:,} are the most. Install them on the other machines instead."
        )
    return files


def _root(top: str) -> Path | None:
    """The folder of `sys.path` that has a module; None if that is installed or built in."""
    module = sys.modules.get(top)
    paths = [Path(one) for one in getattr(module, "__path__", ())]
    file = getattr(module, "__file__", None)
    place = paths[0] if paths else None if file is None else Path(file)
    if place is None:
        return None
    root = place.resolve().parent
    return None if any(root.is_relative_to(one.resolve()) for one in _INSTALLED) else root


def _files(top: str, root: Path) -> Iterator[Path]:
    package = root / top
    if not package.is_dir():
        yield root / Path(str(sys.modules[top].__file__)).name
        return
    for one in package.rglob("*"):
        inside = one.relative_to(package).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in inside)
        if one.is_file() and not hidden:
            yield one
