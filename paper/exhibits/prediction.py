"""Appendix A: how accurately the tangent kernel predicts an update."""

from __future__ import annotations

import numpy as np

from handrail._types import Array
from paper.drawing.measurements import prediction_figure
from paper.exhibit import Claim, Content, Drawing, Exhibit, Table
from paper.results import Results

_FIRST_CHANNEL = 0
_CLAIMED = 0.05  # per cent
_NAMES = ("prediction_1e3", "prediction_1e4", "prediction_1e5")
_AVERAGED = ("prediction_averaged_1e3", "prediction_averaged_1e4")
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def _prediction(results: Results) -> Content:
    errors = [_errors(results, name) for name in _NAMES]
    medians = [float(np.median(np.abs(table))) for table in errors]
    others = [_errors(results, name) for name in _AVERAGED]
    averaged = [float(np.median(np.abs(table))) for table in others]
    labels = [results.experiments[name].label for name in _NAMES]
    nearest = labels[int(np.argmin(np.abs(np.log(np.array(medians) / _CLAIMED))))]
    return Content(
        claims=(
            Claim(
                "The prediction becomes more accurate as the learning rate decreases.",
                "median size of the relative error: "
                + ", ".join(
                    f"{median:.2g} % at {label}"
                    for median, label in zip(medians, labels, strict=True)
                ),
                medians[0] > medians[1] > medians[2],
            ),
            Claim(
                "The learning rate used in the simulations (appendix A: α = 0.001) yields "
                "approximately 0.05 % prediction error.",
                f"{medians[0]:.2g} % at α = 0.001, and {medians[1]:.2g} % at the α = 0.0001 that "
                f"section 4 and the authors' implementation use; nearest to 0.05 % is {nearest}",
                0.5 * _CLAIMED <= medians[0] <= 2.0 * _CLAIMED,
                "The prediction is exact to first order (it agrees with the authors' own kernel to "
                "1e-10, see tests/support/golden), so its error grows with the size of the step, "
                "which is α times a sum over the steps of the episode. With gradients averaged "
                "over the episode, as a mean loss would, it is "
                f"{averaged[0]:.2g} % at α = 0.001 and {averaged[1]:.2g} % at α = 0.0001"
                + (
                    ": the paper's number lies between. It does not say which it measured."
                    if averaged[1] < _CLAIMED < averaged[0]
                    else "."
                ),
            ),
        ),
        drawings=(
            Drawing(
                "prediction",
                prediction_figure(list(zip(labels, errors, strict=True))),
                "Relative error of the predicted batch-average change of the policy's first "
                "output, over 100 unconstrained Cartpole episodes. Episodes whose change is nearly "
                "zero have errors beyond the frame.",
            ),
        ),
        tables=(
            Table(
                "Size of the relative error in per cent, over all episodes of all seeds.",
                ("step size", *(f"{quantile:.0%} quantile" for quantile in _QUANTILES)),
                [
                    (label, *(f"{value:.2g}" for value in np.quantile(np.abs(table), _QUANTILES)))
                    for label, table in zip(
                        [*labels, *(results.experiments[name].label for name in _AVERAGED)],
                        [*errors, *others],
                        strict=True,
                    )
                ],
            ),
        ),
    )


def _errors(results: Results, name: str) -> Array:
    """(seeds, episodes) in per cent."""
    return np.array([one.relative_errors(_FIRST_CHANNEL) for one in results.predicted(name)])


PREDICTION = Exhibit("prediction", "Figure 14", "Accuracy of the prediction", _prediction)
