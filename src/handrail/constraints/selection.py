"""Which states of a region a learner constrains: what the user declares."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, final

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from handrail.errors import InvalidArgument

STRICT = ConfigDict(
    extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
)


class _Choice(BaseModel, ABC):
    """How states of a discretised region are chosen for each update: the paper's section 3.3."""

    model_config = STRICT

    points: Annotated[int, Field(ge=1)] = 50
    """How many states each region (or sub-region of a union) is discretised into."""
    states: Annotated[int, Field(ge=1)] = 1
    """How many of them are constrained at a time."""

    @model_validator(mode="after")
    def _enough_points(self) -> Self:
        if self.states > self.points:
            raise ValueError(f"{self.states} states cannot be chosen among {self.points} points.")
        return self


@final
class MaximumReturn(_Choice):
    """Constrain the state whose required safe return is largest."""

    strategy: Literal["maximum_return"] = "maximum_return"
    """The name of this selection."""


@final
class MaximumDeviation(_Choice):
    """Constrain the state that deviates most from its bound."""

    strategy: Literal["maximum_deviation"] = "maximum_deviation"
    """The name of this selection."""


@final
class Everywhere(BaseModel):
    """Hold a constraint on the whole region: states enter as they are needed."""

    model_config = STRICT

    strategy: Literal["everywhere"] = "everywhere"
    """The name of this selection."""
    sample: Annotated[int, Field(ge=1)] = 3000
    """On how many states each region is measured."""
    margin: Annotated[float, Field(gt=0.0, le=1.0)] = 0.02
    """How far inside their bounds the chosen states are held, in log-odds (of mean actions: in
    standard deviations), so that the states between them are inside as well."""
    prove: bool = False
    """Prove that the constraints hold at every state, before the first step and after every
    update."""
    cells: Annotated[int, Field(ge=1)] = 200_000
    """Of a proof: give up after so many."""
    seconds: Annotated[float, Field(gt=0.0)] = 60.0
    """Of a proof: give up after so long."""


_Strategy = Literal["everywhere", "maximum_return", "maximum_deviation"]


_Model = Everywhere | MaximumReturn | MaximumDeviation


def _strategy_of(value: Any) -> str:
    if isinstance(value, BaseModel):
        return str(getattr(value, "strategy", ""))
    return str(value.get("strategy", "everywhere")) if isinstance(value, Mapping) else ""


def _in_full(value: Any) -> Any:
    """`selection: maximum_return` is short for `selection: {strategy: maximum_return}`."""
    return {"strategy": value} if isinstance(value, str) else value


Selection = Annotated[
    Annotated[Everywhere, Tag("everywhere")]
    | Annotated[MaximumReturn, Tag("maximum_return")]
    | Annotated[MaximumDeviation, Tag("maximum_deviation")],
    Discriminator(
        _strategy_of,
        custom_error_type="selection",
        custom_error_message="expected everywhere, maximum_return or maximum_deviation, or a "
        "mapping such as {strategy: maximum_deviation, points: 50}",
    ),
    BeforeValidator(_in_full, json_schema_input_type=_Strategy | _Model),
]


_ANY: TypeAdapter[Everywhere | MaximumReturn | MaximumDeviation] = TypeAdapter(Selection)


def chosen_selection(given: Selection | str | None, prove: bool) -> Selection:
    """How regions are held, as callers say it: a selection, the name of one, or whether to prove.

    Args:
        given: what a file may say as well: "maximum_return" is `MaximumReturn()`.
        prove: short for `Everywhere(prove=True)`.
    """
    if not isinstance(prove, bool):
        raise InvalidArgument(f"prove must be True or False, not {prove!r}.")
    if given is None:
        return Everywhere(prove=prove)
    if prove:
        raise InvalidArgument(
            "Say how regions are held once: prove=True, or selection=Everywhere(prove=True)."
        )
    try:
        return _ANY.validate_python(given)
    except ValidationError:
        raise InvalidArgument(
            f"selection={given!r}: expected Everywhere(…), MaximumReturn(…) or "
            "MaximumDeviation(…), or the name of one: 'everywhere', 'maximum_return', "
            "'maximum_deviation'."
        ) from None
