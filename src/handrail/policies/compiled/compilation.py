"""How passes are compiled (optional: needs numba)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """The same function in machine code, which is kept on disk.

    What is kept is as old as the file of the function: it may call compiled functions of the same
    file only, or a change of theirs would leave it as it was.
    """
    # Sums may be reordered (they are everywhere else, too), NaN must stay NaN.
    decorate: Any = numba.njit(
        cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy"
    )
    result: _Function = decorate(function)
    return result
