"""Small policies and rules to draw, and what is found in a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.constraints import Bounded, bound_in_words
from handrail.constraints.constraint import Constraint
from handrail.report.plane import Plane
from handrail.rulebook.rulebook import Rulebook, load_rulebook, with_settings

PLANE = Plane((0.0, 0.0, 0.0, 0.0), 2, 3, (-0.4, 0.4), (-0.4, 0.4))


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def caption(figure: Figure) -> str:
    return figure.legends[0].get_title().get_text()


def marked(axes: Axes, label: str) -> Array:
    """The positions (n, 2) of the marks or the line with a label."""
    found = [line.get_xydata() for line in axes.lines if line.get_label() == label]
    return np.concatenate([np.asarray(one) for one in found])


def book(constraints: Sequence[Constraint], hidden: int = 64, **settings: object) -> Rulebook:
    """Cartpole under other constraints."""
    small = with_settings(load_rulebook("cartpole"), network={"hidden": [hidden]}, **settings)
    said = tuple(bound_in_words(*one.bounds) for one in constraints if isinstance(one, Bounded))
    return replace(small, constraints=tuple(constraints), requirements=said)


def lean_left(name: str = "left", x: float = 0.0) -> hr.AtLeast:
    return hr.AtLeast(0.6, 0, hr.Box([x, 0, -0.3, -0.2], [x, 0, -0.2, 0.1]), name=name)


def leaning() -> hr.CategoricalPolicy:
    """The log-odds of action 0 are -10 φ."""
    layer = nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[0.0, 0.0, -10.0, 0.0], [0.0] * 4])
    return hr.CategoricalPolicy(nn.Sequential(layer))


LEANING = leaning()
