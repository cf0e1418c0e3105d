"""The three kinds of NumPy array that pass between the stages."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

Indices: TypeAlias = NDArray[np.intp]

Mask: TypeAlias = NDArray[np.bool_]
