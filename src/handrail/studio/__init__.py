"""Draw what you know on the policy, and watch it answer: a page on this computer.

The face is lazy: pages without a server need neither Starlette nor uvicorn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail._package import lazy_face

if TYPE_CHECKING:
    from handrail.studio.opened import Opened as Opened
    from handrail.studio.python_code import python_of as python_of
    from handrail.studio.server import serve as serve
    from handrail.studio.session import Session as Session
    from handrail.studio.still import write_page as write_page
    from handrail.studio.still import write_report as write_report

_NAMES = {
    "opened": ("Opened",),
    "python_code": ("python_of",),
    "server": ("serve",),
    "session": ("Session",),
    "still": ("write_page", "write_report"),
}

__all__ = sorted(name for names in _NAMES.values() for name in names)  # noqa: PLE0605

__getattr__, __dir__ = lazy_face(__name__, _NAMES)
