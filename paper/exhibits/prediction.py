"""Appendix A: how accurately the tangent kernel predicts an update."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from handrail._types import Array
from paper.drawing.measurements import prediction_figure
from paper.exhibit import Claim, Content, Drawing, Exhibit, Table, average, number
from paper.interval import all_of, over_seeds, ratio
from paper.prediction import DEFINITIONS
from paper.results import Results

_CLAIMED = 0.05  # per cent
_ABOUT = (0.5 * _CLAIMED, 2.0 * _CLAIMED)
_STEP_SIZES = {"1e3": "0.001", "1e4": "0.0001", "1e5": "0.00001"}  # by the end of the name
_LEARNERS = {
    "prediction_": "standardised returns",
    "prediction_raw_": "raw returns",
    "prediction_averaged_": "standardised, gradients averaged",
}
_USUAL = "prediction_"  # the returns that the authors' implementation has, and
_FIRST = next(iter(DEFINITIONS))  # the average that the paper's figure is of


def _prediction(results: Results) -> Content:
    names = [f"{_USUAL}{size}" for size in _STEP_SIZES]
    errors = [_errors(results, name, _FIRST) for name in names]
    medians = [[_median(row) for row in np.abs(table)] for table in errors]
    at_first, at_second, at_third = (over_seeds(one) for one in medians)
    return Content(
        claims=(
            Claim(
                "The prediction becomes more accurate as the learning rate decreases.",
                f"median size of the relative error: {at_first.words('.3g')} % at α = 0.001, "
                f"{at_second.words('.3g')} % at 0.0001, {at_third.words('.3g')} % at 0.00001",
                all_of(ratio(a, b).above(1.0) for a, b in pairwise(medians)),
            ),
            Claim(
                "The learning rate used in the simulations (appendix A: α = 0.001) yields "
                "approximately 0.05 % prediction error.",
                f"{at_first.words('.3g')} % at α = 0.001, and {at_second.words('.3g')} % at the "
                "α = 0.0001 that section 4 and the authors' implementation use. Of the other "
                "definitions, within a factor of 2 of 0.05 % at α = 0.001: "
                f"{'; '.join(_compatible(results)) or 'none'}",
                at_first.meets(*_ABOUT),
                "The prediction is exact to first order (it agrees with the authors' own kernel to "
                "1e-10, see tests/support/golden), so its error grows with the size of the step, "
                "which is α times a sum over the steps of the episode. The paper does not say "
                "which average its number is of, over what, nor whether a loss was averaged.",
            ),
        ),
        drawings=(
            Drawing(
                "prediction",
                prediction_figure(
                    [(results.experiments[n].label, e) for n, e in zip(names, errors, strict=True)]
                ),
                "Relative error of the predicted batch-average change of the policy's first "
                "output, over 100 unconstrained Cartpole episodes. Episodes whose change is nearly "
                "zero have errors beyond the frame.",
            ),
        ),
        tables=(_sizes(results), _over_time(results)),
    )


def _sizes(results: Results) -> Table:
    """Definitions × step sizes: median and mean."""
    rows = []
    for learner, returns in _LEARNERS.items():
        for definition in DEFINITIONS:
            tables = [np.abs(_errors(results, learner + size, definition)) for size in _STEP_SIZES]
            cells = [number(of(one), ".3g") for one in tables for of in (_median, average)]
            rows.append((returns, definition, *cells))
    header = [f"α = {size}: {what}" for size in _STEP_SIZES.values() for what in ("median", "mean")]
    return Table(
        "Size of the relative error in per cent, by what the error is of: over all episodes of all "
        "seeds. A change that is nearly zero has any relative error, so means are those of a few "
        "episodes.",
        ("learning from", "relative error of the", *header),
        rows,
    )


def _over_time(results: Results) -> Table:
    """Definitions × step sizes: signed errors averaged over episodes before their size is taken."""
    rows = []
    for learner, returns in _LEARNERS.items():
        for definition in DEFINITIONS:
            tables = [_errors(results, learner + size, definition) for size in _STEP_SIZES]
            means = [over_seeds([abs(average(row)) for row in table]) for table in tables]
            rows.append((returns, definition, *(one.words(".3g") for one in means)))
    return Table(
        "The same averaged over time: the size of the average of a seed's signed errors, in which "
        "errors of either sign cancel; interquartile mean over seeds with its 95 % interval.",
        ("learning from", "relative error of the", *(f"α = {s}" for s in _STEP_SIZES.values())),
        rows,
    )


def _compatible(results: Results) -> list[str]:
    """What is about as the paper claims, at the step size of which it claims so."""
    found = []
    for learner, returns in _LEARNERS.items():
        for definition in DEFINITIONS:
            errors = _errors(results, f"{learner}1e3", definition)
            over_time = over_seeds([abs(average(row)) for row in errors]).value
            for value, how in ((_median(np.abs(errors)), "median"), (over_time, "over time")):
                if _ABOUT[0] <= value <= _ABOUT[1]:
                    found.append(f"{value:.2g} % ({definition}, {how}, {returns})")
    return found


def _errors(results: Results, name: str, definition: str) -> Array:
    """(seeds, episodes) in per cent."""
    return np.array([one.errors[definition] for one in results.predicted(name)])


def _median(values: Array) -> float:
    """Of the values that are known; NaN if none is."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


PREDICTION = Exhibit("prediction", "Figure 14", "Accuracy of the prediction", _prediction)
