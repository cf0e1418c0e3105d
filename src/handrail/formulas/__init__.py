"""Arithmetic of states, as people write it: read, evaluated, enclosed, differentiated."""

from handrail.formulas.formula import Band, Formula, formula_of, function_from, parse_formula
from handrail.formulas.inequality import LinearBounds, StateBounds, parse_bounds, parse_state_bounds
from handrail.formulas.interval import Interval
from handrail.formulas.reader import InvalidFormula, UnknownName
from handrail.formulas.state_function import Affine, PythonFunction, StateFunction

__all__ = [
    "Affine",
    "Band",
    "Formula",
    "Interval",
    "InvalidFormula",
    "LinearBounds",
    "PythonFunction",
    "StateBounds",
    "StateFunction",
    "UnknownName",
    "formula_of",
    "function_from",
    "parse_bounds",
    "parse_formula",
    "parse_state_bounds",
]
