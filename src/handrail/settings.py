"""Settings of a learner and of a run, and how regions are held: one owner of names and defaults.

The same models check what Python callers pass, what a constraint file says and what a saved run
was made with, so a setting cannot mean two things. Nothing here needs a network: the schema of
constraint files is made of these models, and whoever asks for it does not wait for torch.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, final, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from handrail.errors import InvalidArgument

STRICT = ConfigDict(
    extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
)

# Of half the range of an action: wide enough to find something out, narrow enough to obey.
DEFAULT_STD = 0.3

# Of that: from where to where one goes that varies with the state.
DEFAULT_STD_RANGE = (0.1, 2.0)

# Of the network of a run, refused by size before anything of that size exists.
MAX_LAYERS, MAX_WIDTH, MAX_WEIGHTS = 50, 100_000, 20_000_000

BaselineName = Literal["none", "standardised", "time_average", "value"]
EnforcementMode = Literal["exact", "one_step", "none"]
Objective = Literal["returns", "parameters"]
OnUnproven = Literal["refuse", "keep"]
ActivationName = Literal[
    "relu", "tanh", "elu", "gelu", "silu", "sigmoid", "leaky_relu", "softplus", "hardtanh"
]


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
    margin: Annotated[float, Field(gt=0.0, le=1.0)] = 0.05
    """How far inside their bounds the chosen states are held, in log-odds (of mean actions: in
    standard deviations), so that the states between them are inside as well."""
    prove: bool = False
    """Prove that the constraints hold at every state, before the first step and after every
    update."""
    on_unproven: OnUnproven = "refuse"
    """What becomes of a policy that holds on every state that was tried, but could not be proven
    within the budget: refuse it, or keep it. It is never called proven."""
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


def selection_in_full(value: Any) -> Any:
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
    BeforeValidator(selection_in_full, json_schema_input_type=_Strategy | _Model),
]


# How far what is known may move the rest of a policy: little, and as advice for everywhere.
LITTLE_REACH, ADVICE = 1e-3, 10.0

# Below this, rounding decides: what 0 comes to, "only where I said". From this on the weights count
# more than all references together, so the shortest way of the weights is taken.
LEAST_REACH, SHORTEST_WAY = 1e-7, 1.0


@final
class Fading(BaseModel):
    """A reach that fades as experience arrives."""

    model_config = STRICT

    first: Annotated[float, Field(ge=0.0)] = ADVICE
    """Before any experience."""
    last: Annotated[float, Field(ge=0.0)] = LITTLE_REACH
    """In the end. On the way there 0 counts as 1e-7, the least that makes a difference."""
    updates: Annotated[int, Field(ge=1)] = 1
    """After so many updates."""

    def at(self, updates: int) -> float:
        """After so many of them: in equal ratios from the first to the last."""
        if updates >= self.updates:
            return self.last
        first, last = (max(one, LEAST_REACH) for one in (self.first, self.last))
        between = float(first * (last / first) ** (updates / self.updates))
        return between if updates else self.first


# What "auto" is of constraints that cover both sides of a choice, for learners whose updates are
# noisy and for those whose updates are gentle; for the latter, of those with room between two
# bounds. Of one-sided ones for the former; and for the latter at points, of regions, and of those
# that speak of one of two actions (measured: docs/explanation/influence_trials.md).
ADVICE_ALWAYS = Fading(first=ADVICE, last=ADVICE)
ADVICE_AT_FIRST = Fading(first=ADVICE, last=0.1, updates=50)
ADVICE_ONCE = Fading(first=ADVICE, last=LITTLE_REACH)
LEAST_AT_FIRST = Fading(first=0.01 * LITTLE_REACH, last=LITTLE_REACH)
LITTLE_ALWAYS = Fading(first=LITTLE_REACH, last=LITTLE_REACH)
LESS_AT_FIRST = Fading(first=0.1 * LITTLE_REACH, last=LITTLE_REACH)
NEXT_TO_NOTHING_AT_FIRST = Fading(first=0.001 * LITTLE_REACH, last=LITTLE_REACH)

_REACHES = f"a number from 0 (only where I said) to {ADVICE:g} and more (advice for everywhere)"


def _kind_of_reach(value: Any) -> str | None:
    """Which of the three it is meant to be; None of what is no reach at all."""
    if isinstance(value, Fading | Mapping):
        return "fading"
    if isinstance(value, str):
        return "auto" if value == "auto" else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "number" if is_number and 0.0 <= value < math.inf else None


Reach = Annotated[
    Annotated[float, Field(ge=0.0), Tag("number")]
    | Annotated[Fading, Tag("fading")]
    | Annotated[Literal["auto"], Tag("auto")],
    Discriminator(
        _kind_of_reach,
        custom_error_type="reach",
        custom_error_message=f"expected {_REACHES}, a mapping such as {{first: 10, last: 0.001, "
        "updates: 20}, or auto",
    ),
]
"""0: only where a constraint speaks; 10 and more: advice for everywhere; "auto": see `Rail`."""


class _LearningSettings(BaseModel, ABC):
    """What a learner needs to know, whoever sets it."""

    model_config = STRICT

    step_size: Annotated[float, Field(gt=0.0)] = 1e-4
    """α of one update. With several episodes an update, their gradients are averaged."""
    discount: Annotated[float, Field(gt=0.0, le=1.0)] = 0.99
    """γ: what a reward is worth one step earlier."""
    baseline: BaselineName = "value"
    """What returns are compared with: none, standardised (the paper's code), time_average (the
    average return at the same step of recent episodes) or value (a value function, with generalised
    advantages)."""
    baseline_window: Annotated[int, Field(ge=1)] = 100
    """How many recent episodes time_average and value look at."""
    advantage_decay: Annotated[float, Field(ge=0.0, le=1.0)] = 0.98
    """λ of generalised advantages; used by the value baseline only."""
    episodes_per_update: Annotated[int, Field(ge=1)] = 1
    """Episodes that are collected before the policy is updated once."""
    enforcement: EnforcementMode = "exact"
    """exact: no policy that violates a constraint ever acts. one_step: the paper's Algorithm 2, one
    program per update. none: constraints are measured, not held."""
    selection: Selection = Everywhere()
    """Of constraints on regions: everywhere (the whole region), maximum_return or maximum_deviation
    (the paper: one state of each region at a time), with options in a mapping."""
    reach: Reach = "auto"
    """How far exact enforcement may move the policy where no constraint speaks: 0 (only where I
    said) to 10 (take it as advice for everywhere); {first: 10, last: 0.001, updates: 20} fades as
    experience arrives. auto is 10 where the constraints cover both sides of a choice, and where
    they do not 0.00001 before the first step and 0.001 from then on."""
    objective: Objective = "returns"
    """What the safe returns of one_step keep small: the returns (the paper) or the change of the
    network (parameters)."""
    soft: bool = False
    """Let constraints that contradict each other give way, dearer ones last (one_step only)."""
    tolerance: Annotated[float, Field(gt=0.0)] | None = None
    """The largest violation that exact enforcement leaves at points; by default 1e-6, of a policy
    in float32 1e-5."""
    freeze_after: Annotated[int, Field(ge=1)] | None = None
    """Stop updating after this many episodes (the paper's code: 50)."""
    use_every: Annotated[int, Field(ge=1)] = 1
    """Learn from every k-th step of an episode only (the paper on Lunar Lander: 10)."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of the network's first weights, the environment and the policy's draws."""

    @model_validator(mode="after")
    def _soft_is_not_exact(self) -> Self:
        if self.soft and self.enforcement != "one_step":
            raise ValueError(
                f"soft lets constraints give way, enforcement '{self.enforcement}' does not use "
                "it: set enforcement to 'one_step', or soft to false."
            )
        return self


@final
class LearnerSettings(_LearningSettings):
    """The settings of `Reinforce`."""


_Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]

_Widths = Annotated[list[_Width], Field(min_length=1, max_length=MAX_LAYERS)]


def _layers_in_full(value: Any) -> Any:
    """`hidden: 64` is short for `hidden: [64]`."""
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


def _kind_of_scale(value: Any) -> str | None:
    """Which of the two it is meant to be; None of what is no scale at all."""
    if isinstance(value, Mapping):
        return "sizes"
    return "auto" if value == "auto" else None


_Scale = Annotated[
    Annotated[dict[str, Annotated[float, Field(gt=0.0)]], Tag("sizes")]
    | Annotated[Literal["auto"], Tag("auto")],
    Discriminator(
        _kind_of_scale,
        custom_error_type="scale",
        custom_error_message="expected typical sizes by name, such as {x_dot: 2}, or auto",
    ),
]


@final
class Network(BaseModel):
    """A fully connected network."""

    model_config = STRICT

    hidden: Annotated[
        _Widths, BeforeValidator(_layers_in_full, json_schema_input_type=_Width | _Widths)
    ] = [5000]
    """Widths of the hidden layers, or that of the only one; the paper's network is one layer of
    5000."""
    activation: ActivationName = "relu"
    """What each hidden unit computes."""
    std: Annotated[float, Field(gt=0.0)] = DEFAULT_STD
    """Of continuous actions: their standard deviation, as a part of half their range."""
    std_range: (
        Annotated[list[Annotated[float, Field(gt=0.0)]], Field(min_length=2, max_length=2)] | None
    ) = None
    """Of continuous actions: learn their standard deviation, from the first to the second part of
    `std`."""
    std_varies: bool = False
    """Of continuous actions: let their standard deviation depend on the state, and learn it; from
    0.1 to 2 times `std`, unless `std_range` says otherwise."""
    scale: _Scale = {}
    """The typical size of observations that are far from 1, by name, or auto for half the ranges of
    the observation space: the network's first layer divides by it."""
    centre: dict[str, float] = {}
    """Typical values of observations, by name, which that layer takes off first; of auto the
    middles of the ranges."""
    bounded: Literal["tanh", "hardtanh"] | None = None
    """Of continuous actions: keep their means within their ranges, by a tanh, or by clipping
    (hardtanh)."""
    residual: dict[str, str] = {}
    """Of continuous actions: a controller that the network is added to, a linear formula of the
    observations by action."""

    @field_validator("std_range")
    @classmethod
    def _has_room(cls, parts: list[float] | None) -> list[float] | None:
        if parts is not None and not (parts[0] <= 1.0 <= parts[1] and parts[0] < parts[1]):
            raise ValueError(
                f"a learned standard deviation starts from `std`, so it needs parts of that from "
                f"at most 1 to at least 1, such as [0.1, 1], but got {parts}."
            )
        return parts

    @model_validator(mode="after")
    def _begins_inside(self) -> Self:
        parts = self.std_range
        if self.std_varies and parts is not None and not parts[0] < 1.0 < parts[1]:
            raise ValueError(
                f"a standard deviation that varies starts from `std`, inside its range, so it "
                f"needs parts of that from below 1 to above 1, such as [0.1, 2], but got {parts}."
            )
        return self

    @field_validator("hidden")
    @classmethod
    def _can_be_built(cls, hidden: list[int]) -> list[int]:
        weights = sum(a * b for a, b in pairwise(hidden))
        if weights > MAX_WEIGHTS:
            raise ValueError(
                f"these layers have {weights:,} weights between them; a network of a file has at "
                f"most {MAX_WEIGHTS:,}. Use narrower layers, or fewer; a larger network of your "
                "own can be wrapped in Python."
            )
        return hidden


@final
class RunSettings(_LearningSettings):
    """The settings of a whole run: those of the learner, its network, and how long it learns."""

    episodes: Annotated[int, Field(ge=1)] = 100
    """How many episodes to learn from."""
    network: Network = Network()
    """The policy's network."""

    @property
    def learner(self) -> LearnerSettings:
        """Those that the learner needs."""
        return LearnerSettings(**self.model_dump(include=set(LearnerSettings.model_fields)))


def setting_path(name: str) -> tuple[str, ...]:
    """Where a setting is: `network.hidden`, or for short `hidden`, is inside of `network`."""
    if name in Network.model_fields and name not in RunSettings.model_fields:
        return "network", name
    return tuple(name.split("."))


def setting_name(path: tuple[str, ...]) -> str:
    """The shortest name of a setting."""
    return path[-1] if setting_path(path[-1]) == path else ".".join(path)


def put_setting(settings: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set one of nested settings, beside those that are set already."""
    *outer, last = path
    for name in outer:
        settings = settings.setdefault(name, {})
        if not isinstance(settings, dict):
            raise InvalidArgument(
                f"{name} was set to {settings!r} as a whole before. Name its parts one by one, "
                f"such as {name}.strategy={settings}."
            )
    settings[last] = value


def learner_settings(**values: Any) -> LearnerSettings:
    """Checked settings, or `InvalidArgument` that names the setting, the value and what fits."""
    try:
        return LearnerSettings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:  # about several settings together
            raise InvalidArgument(expectation(first)) from None
        name = str(first["loc"][0])
        if name == "reach":
            chosen_reach(values[name])
        raise InvalidArgument(f"{name}={first['input']!r}: {expectation(first)}") from None


def check_count(name: str, value: object) -> None:
    """Refuse what is no positive whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgument(f"{name} must be a positive whole number, but got {value!r}.")


def expectation(error: Mapping[str, Any]) -> str:
    """One of pydantic's findings as a sentence about what was expected."""
    text = str(error["msg"]).removeprefix("Value error, ")
    sentence = text.replace("Input should be", "expected").replace("a valid ", "a ")
    return sentence if sentence.endswith(".") else f"{sentence}."


def first_finding(error: ValidationError) -> str:
    """Where the first wrong value of a file is, and what was expected there."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {expectation(first)}" if where else expectation(first)


_REACH: TypeAdapter[float | Fading | Literal["auto"]] = TypeAdapter(Reach)


def chosen_reach(given: object) -> float | Fading | Literal["auto"]:
    """How far knowledge may reach, as callers say it, checked."""
    try:
        return _REACH.validate_python(given)
    except ValidationError:
        raise InvalidArgument(
            f"reach={given!r}: expected {_REACHES}, Fading(first=10, last=0.001, updates=20) from "
            "one such number to another, or 'auto'."
        ) from None


_ANY: TypeAdapter[Everywhere | MaximumReturn | MaximumDeviation] = TypeAdapter(Selection)


def chosen_selection(
    given: Selection | str | None, prove: bool, on_unproven: OnUnproven = "refuse"
) -> Selection:
    """How regions are held, as callers say it: a selection, the name of one, or whether to prove.

    Args:
        given: what a file may say as well: "maximum_return" is `MaximumReturn()`.
        prove: short for `Everywhere(prove=True)`.
        on_unproven: short for `Everywhere(prove=True, on_unproven=…)`.
    """
    if on_unproven not in get_args(OnUnproven):
        raise InvalidArgument(f'on_unproven must be "refuse" or "keep", not {on_unproven!r}.')
    if not isinstance(prove, bool):
        raise InvalidArgument(f"prove must be True or False, not {prove!r}.")
    if on_unproven != "refuse" and not prove:
        raise InvalidArgument(
            f'on_unproven="{on_unproven}" is about proofs: say prove=True, too, or '
            f'selection=Everywhere(prove=True, on_unproven="{on_unproven}").'
        )
    if given is None:
        return Everywhere(prove=prove, on_unproven=on_unproven)
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
