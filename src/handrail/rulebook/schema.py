"""The form of a constraint file, as pydantic models; the JSON Schema for editors is made of them.

Keys, types and bounds are checked here. Whether names, places and requirements make sense together
is for those who build something of them.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Self, TypeAlias, final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from handrail.rulebook.region_schema import (
    ANY,
    GRID,
    LIST,
    MAPPING,
    NUMBER,
    STATES,
    TEXT,
    Formula,
    Number,
    RegionOrUnion,
    tag_by_type,
)
from handrail.settings import STRICT, RunSettings

REQUIRE = "require"

MAX_CONSTRAINTS = 1000

# Numbers of an observation that is given by its shape: a screen of the Atari has 100,800.
MAX_OBSERVED = 1_000_000

_MAX_ACTIONS = 1000

# The tag of branches, where a mapping of ranges might stand as well.
_BRANCHES = "<branches>"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise PydanticCustomError(
            "name",
            f"{name!r} is no name here: start with a letter and go on with letters, digits and _, "
            "because requirements are written with it.",
        )
    if name == REQUIRE:
        raise PydanticCustomError("name", "'require' is reserved for the column of a table.")
    return name


_NESTED = re.compile(rf"{_NAME.pattern}(?:\.{_NAME.pattern})*", re.ASCII)


def _check_observation(name: str) -> str:
    if not _NESTED.fullmatch(name):
        raise PydanticCustomError(
            "name",
            f"{name!r} is no name here: start with a letter and go on with letters, digits and _, "
            "because requirements are written with it; of a part of an observation, position.x.",
        )
    return _check_name(name) if "." not in name else name


def _check_scalar(value: Any) -> Any:
    finite = math.isfinite(value) if isinstance(value, float) else True
    if not isinstance(value, bool | int | float | str) or not finite:
        raise PydanticCustomError("scalar", "expected a number, a text, true or false")
    return value


Name: TypeAlias = Annotated[
    str, AfterValidator(_check_name), Field(json_schema_extra={"pattern": f"^{_NAME.pattern}$"})
]

ObservationName: TypeAlias = Annotated[
    str,
    AfterValidator(_check_observation),
    Field(json_schema_extra={"pattern": f"^{_NESTED.pattern}$"}),
]

Scalar: TypeAlias = Annotated[bool | int | float | str, BeforeValidator(_check_scalar)]


@final
class Grid(BaseModel):
    """Evenly spaced values, both ends included."""

    model_config = STRICT

    from_: Annotated[float, Field(alias="from")]
    """The first value."""
    to: float
    """The last value."""
    count: Annotated[int, Field(ge=2)]
    """How many values."""

    @model_validator(mode="after")
    def _ascends(self) -> Grid:
        if self.from_ >= self.to:
            raise PydanticCustomError(
                "grid", f"a grid goes up, but from {self.from_:g} is not below to {self.to:g}."
            )
        return self


def _refuse_any(value: Any) -> Any:
    if value == ANY:
        raise PydanticCustomError(
            "values",
            "`any` is infinitely many values, and `where` lists states. Write `region` instead of "
            "`where`.",
        )
    return value


Values: TypeAlias = Annotated[
    Annotated[float, Tag(NUMBER)]
    | Annotated[list[float], Field(min_length=1), Tag(LIST)]
    | Annotated[Grid, Tag(GRID)],
    Discriminator(
        tag_by_type(grid=(dict, Grid), list=list, number=(int, float)),
        custom_error_type="values",
        custom_error_message="expected a number, a list of numbers or a grid such as "
        "{from: -2, to: 2, count: 9}",
    ),
    BeforeValidator(_refuse_any),
]


@final
class StatesReference(BaseModel):
    """States that an array file holds."""

    model_config = STRICT

    states: Annotated[str, Field(min_length=1)]
    """A file of NumPy beside this one: frames.npy, frames.npz with one array, or
    frames.npz:name; an array (n, *observation_shape)."""


def _kind_of_block(value: Any) -> str | None:
    """No value of an observation is a text, so a text under `states` is a file."""
    if isinstance(value, StatesReference):
        return STATES
    if isinstance(value, dict):
        return STATES if isinstance(value.get("states"), str) else MAPPING
    return None


def _kind_of_where(value: Any) -> str | None:
    return LIST if isinstance(value, list) else _kind_of_block(value)


_Values: TypeAlias = Annotated[dict[str, Values], Field(min_length=1), Tag(MAPPING)]
_States: TypeAlias = Annotated[StatesReference, Tag(STATES)]

_WHERE = "a mapping such as {x: 0, phi: [0.2, 0.25]} or {states: frames.npy}"

WhereBlock: TypeAlias = Annotated[
    _Values | _States,
    Discriminator(
        _kind_of_block, custom_error_type="where", custom_error_message=f"expected {_WHERE}"
    ),
]

Where: TypeAlias = Annotated[
    _Values | _States | Annotated[list[WhereBlock], Field(min_length=1), Tag(LIST)],
    Discriminator(
        _kind_of_where,
        custom_error_type="where",
        custom_error_message=f"expected {_WHERE}, or a list of such mappings",
    ),
]


@final
class BarrierEntry(BaseModel):
    """What keeps h at 0 or above: of a plant in continuous time (drift and gain), or in steps."""

    model_config = STRICT

    h: Formula
    """An expression of observations, which is to stay at 0 or above."""
    drift: dict[str, Formula] = {}
    """How fast each observation moves by itself."""
    gain: dict[str, Formula | Annotated[list[Formula], Field(min_length=1)]] = {}
    """How much faster per unit of the action; of several actions, a list with one for each."""
    step: dict[str, Formula] = {}
    """Instead of drift and gain: what each observation is after a step, with names of actions."""
    rate: Annotated[Number, Field(gt=0.0)]
    """How fast h may fall towards 0: h' >= -rate*h; of steps, the share of h that one may lose."""
    disturbance: dict[str, Annotated[Number, Field(ge=0.0)]] = {}
    """Names that may stand in drift or step, and how large each is at most, up or down."""

    @model_validator(mode="after")
    def _is_one_plant(self) -> Self:
        if bool(self.step) == bool(self.gain or self.drift) or (self.drift and not self.gain):
            raise PydanticCustomError(
                "plant",
                "expected either `gain` (and `drift`, if the plant moves by itself), or `step`",
            )
        return self


_Texts: TypeAlias = Annotated[str, Tag(TEXT)] | Annotated[list[str], Field(min_length=1), Tag(LIST)]


def _either(kind: str, expected: str) -> Discriminator:
    """A text or a list of texts, and what is said where there is something else."""
    return Discriminator(
        tag_by_type(text=str, list=list),
        custom_error_type=kind,
        custom_error_message=f"expected {expected}",
    )


Slopes: TypeAlias = Annotated[
    _Texts,
    _either(
        "slopes",
        "a text such as right increasing in phi (monotone) or force within 5 per phi "
        "(lipschitz), or a list of such texts",
    ),
]


@final
class SymmetryEntry(BaseModel):
    """That the policy does in the mirror what the mirror image of its action is."""

    model_config = STRICT

    mirror: Annotated[dict[str, Formula], Field(min_length=1)]
    """What each observation becomes: {phi: -phi}, or {left_leg: right_leg, right_leg: left_leg};
    those that are left out stay themselves."""
    swap: dict[str, Formula] = {}
    """What each action becomes: {left: right, right: left}, or of continuous ones {force: -force};
    those that are left out stay themselves."""
    within: Annotated[Number, Field(ge=0.0)] = 0.0
    """The largest difference allowed; in a region above 0."""


@final
class PreferredEntry(BaseModel):
    """A preference as one of several alternatives."""

    model_config = STRICT

    prefer: str
    """An action, over another one or over all others: right over left by 1."""


Alternative: TypeAlias = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[PreferredEntry, Tag(MAPPING)],
    Discriminator(
        tag_by_type(text=str, mapping=(dict, PreferredEntry)),
        custom_error_type="any_of",
        custom_error_message="expected a requirement such as right >= 0.95, or {prefer: right}; "
        "alternatives are no choices themselves",
    ),
]


@final
class ConstraintEntry(BaseModel):
    """What the policy must do, and where."""

    model_config = STRICT | {
        "json_schema_extra": {
            "oneOf": [
                {"anyOf": [{"required": ["where"]}, {"required": ["table"]}]},
                {"required": ["region"]},
            ]
        }
    }

    name: Annotated[str, Field(min_length=1, pattern=r"\S")]
    """What tables and messages call it; every constraint has a name of its own."""
    where: Where | None = None
    """A number, a list of numbers or a grid for each observation: all their combinations; `others`
    stands for all that are not named. Or {states: frames.npy}, an array file of states. A list of
    such mappings is their union."""
    table: str | None = None
    """A block of text (|): observations name the columns, every further line is a state. The last
    column may be called require."""
    region: RegionOrUnion | None = None
    """Instead of where and table, infinitely many states: a number, a range or `any` (all that the
    environment observes) for each observation, and at most one shape; `others` stands for all that
    are not named. A list of such mappings is their union."""
    require: (
        Annotated[
            _Texts,
            _either("require", "a requirement such as right >= 0.95, or a list of requirements"),
        ]
        | None
    ) = None
    """What the probabilities of actions (right >= 0.95), or continuous actions in the mean
    (torque >= 0.5), must obey at these states."""
    prefer: (
        Annotated[
            _Texts,
            _either(
                "prefer", "a preference such as right over left by 1, or a list of preferences"
            ),
        ]
        | None
    ) = None
    """Instead of require, of discrete actions: which one is likelier than another (right over
    left), or than all others (right), and by how much at least in log-odds (by 1)."""
    any_of: Annotated[
        Annotated[list[Alternative], Field(min_length=2)] | None, Field(alias="any of")
    ] = None
    """Instead of require: requirements (or preferences, {prefer: right}) of which at least one
    holds at every state, another one at each perhaps."""
    monotone: Slopes | None = None
    """Instead of require, on a region: what rises or falls with an observation all over it (force
    increasing in phi). Of discrete actions, the odds of one against every other one."""
    lipschitz: Slopes | None = None
    """Instead of require, on a region: how much an action changes at most per unit of an
    observation (force within 5 per phi). Of discrete actions, in log-odds against every other."""
    barrier: BarrierEntry | None = None
    """Instead of require, of continuous actions: a barrier condition on the mean action."""
    symmetric: SymmetryEntry | None = None
    """Instead of require: the policy at a state and at its mirror image."""
    priority: Annotated[float, Field(gt=0.0)] = 1.0
    """How much more than others it matters when constraints are soft."""

    @field_validator("region")
    @classmethod
    def _is_the_only_place(cls, value: Any, info: ValidationInfo) -> Any:
        others = [key for key in ("where", "table") if info.data.get(key) is not None]
        if others and value is not None:
            raise PydanticCustomError(
                "place",
                "a constraint has either `region`, or `where` and `table`, but this one has "
                f"`region` and `{'` and `'.join(others)}`. Remove one, or write two constraints.",
            )
        return value

    @model_validator(mode="after")
    def _has_a_place(self) -> ConstraintEntry:
        if self.where is None and self.table is None and self.region is None:
            raise PydanticCustomError(
                "place",
                "a constraint needs `where` or `table` (or both), or a `region`: the states it is "
                "about.",
            )
        return self


@final
class EnvironmentEntry(BaseModel):
    """A Gymnasium environment and how to make it."""

    model_config = STRICT

    id: Annotated[str, Field(min_length=1)]
    """The name it is registered under, such as CartPole-v1."""
    max_episode_steps: Annotated[int, Field(ge=1)] | None = None
    """When episodes are cut off; the environment's own limit if left out."""
    options: dict[str, Scalar] = {}
    """What else gymnasium.make is told, such as gravity: 9.8."""

    @field_validator("id")
    @classmethod
    def _imports_nothing(cls, value: str) -> str:
        if ":" in value:
            module = value.partition(":")[0]
            raise PydanticCustomError(
                "environment",
                f"a constraint file imports nothing, so {value!r} is refused. Leave out "
                f"'{module}:', and import the module on the command line: --import {module}.",
            )
        return value


def _check_range(ends: Any) -> Any:
    numbers = isinstance(ends, list) and all(type(end) in (int, float) for end in ends)
    if not numbers or len(ends) != 2:
        raise PydanticCustomError("range", "expected a range of two numbers such as [-2, 2]")
    if ends[0] >= ends[1]:
        raise PydanticCustomError(
            "range", f"a range goes up, but {ends[0]:g} is not below {ends[1]:g}."
        )
    return ends


Range: TypeAlias = Annotated[
    list[float], Field(min_length=2, max_length=2), BeforeValidator(_check_range)
]


@final
class PictureEntry(BaseModel):
    """The plane of observations that pictures of the policy show."""

    model_config = STRICT

    across: str
    """The observation on the horizontal axis."""
    up: str
    """The observation on the vertical axis."""
    across_range: Annotated[list[float], Field(min_length=2, max_length=2)]
    """From and to, on the horizontal axis."""
    up_range: Annotated[list[float], Field(min_length=2, max_length=2)]
    """From and to, on the vertical axis."""
    at: dict[str, float] = {}
    """What the other observations are; 0 if left out."""
    action: str
    """The action whose probability (or mean, if it is continuous) is shown."""


def _in_full(value: Any) -> Any:
    """`environment: CartPole-v1` is short for `environment: {id: CartPole-v1}`."""
    if isinstance(value, str):
        return {"id": value}
    if not isinstance(value, dict):
        raise PydanticCustomError(
            "environment",
            "expected the id of an environment, or {id: CartPole-v1, max_episode_steps: 200}",
        )
    return value


def _several(actions: Any) -> Any:
    if isinstance(actions, list) and len(actions) == 1:
        raise PydanticCustomError(
            "actions",
            "a single discrete action leaves nothing to decide; a continuous one needs its range, "
            f"such as {{{actions[0]}: [-2, 2]}}.",
        )
    return actions


def _named(names: Any) -> Any:
    """The actions of a branch, where other branches have some."""
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise PydanticCustomError(
            "branch",
            "expected a list of names such as [low, high]: other actions here are branches, each "
            "with names for its own actions, and a policy has either branches or ranges",
        )
    if len(names) < 2:
        raise PydanticCustomError(
            "branch", "a branch with a single action leaves nothing to decide."
        )
    return names


Branch: TypeAlias = Annotated[
    list[Name], Field(min_length=2, max_length=_MAX_ACTIONS), BeforeValidator(_named)
]


def _few(branches: dict[str, list[str]]) -> dict[str, list[str]]:
    n = sum(map(len, branches.values()))
    if n > _MAX_ACTIONS:
        raise PydanticCustomError(
            "actions", f"expected at most {_MAX_ACTIONS} actions of all branches, but got {n}."
        )
    return branches


def _kind_of_actions(actions: Any) -> str | None:
    """Of mappings, whether their values are names or ranges."""
    if isinstance(actions, dict):
        lists = [one for one in actions.values() if isinstance(one, list)]
        return _BRANCHES if any(isinstance(one, str) for each in lists for one in each) else MAPPING
    return LIST if isinstance(actions, list) else None


Shape: TypeAlias = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=8)]


def _not_too_large(parts: dict[str, list[int]]) -> dict[str, list[int]]:
    n = sum(map(math.prod, parts.values()))
    if n > MAX_OBSERVED:
        raise PydanticCustomError(
            "observations",
            f"expected at most {MAX_OBSERVED:,} numbers in an observation, but got {n:,}.",
        )
    return parts


@final
class File(BaseModel):
    """A Handrail constraint file: an environment, its names, and what the policy must obey."""

    model_config = STRICT

    description: str | None = None
    """One line for people."""
    environment: Annotated[
        EnvironmentEntry, BeforeValidator(_in_full, json_schema_input_type=str | EnvironmentEntry)
    ]
    """The id of a Gymnasium environment, or a mapping with its id and options."""
    observations: Annotated[
        Annotated[list[ObservationName], Field(min_length=1, max_length=1000), Tag(LIST)]
        | Annotated[
            dict[Name, Shape],
            Field(min_length=1, max_length=100, json_schema_extra={"additionalProperties": False}),
            AfterValidator(_not_too_large),
            Tag(MAPPING),
        ],
        Discriminator(
            tag_by_type(list=list, mapping=dict),
            custom_error_type="observations",
            custom_error_message="expected a list of names, one for each number that is observed, "
            "or a mapping such as {frame: [84, 84, 4]} (an image and its shape)",
        ),
    ]
    """A name for each number that the environment observes, in its order; of the parts of a Dict,
    position.x. Or, of images, their shape: {frame: [84, 84, 4]}; of a Dict with images, the shape
    of each part. States are then in array files."""
    actions: Annotated[
        Annotated[
            list[Name], Field(min_length=2, max_length=1000), BeforeValidator(_several), Tag(LIST)
        ]
        | Annotated[
            dict[Name, Range],
            Field(min_length=1, max_length=1000, json_schema_extra={"additionalProperties": False}),
            Tag(MAPPING),
        ]
        | Annotated[
            dict[Name, Branch],
            Field(min_length=1, json_schema_extra={"additionalProperties": False}),
            AfterValidator(_few),
            Tag(_BRANCHES),
        ],
        Discriminator(
            _kind_of_actions,
            custom_error_type="actions",
            custom_error_message="expected a list of names (discrete actions), or a mapping such "
            "as {torque: [-2, 2]} (continuous actions and their ranges) or {gear: [low, high], "
            "brake: [off, on]} (branches and their actions)",
        ),
    ]
    """A name for each action, in the environment's order: a list of discrete actions; continuous
    ones with their ranges, such as {torque: [-2, 2]}; or branches (MultiDiscrete, MultiBinary) with
    the names of their actions, such as {gear: [low, high], brake: [off, on]}."""
    definitions: Any = None
    """A place for YAML anchors; otherwise ignored."""
    constraints: Annotated[list[ConstraintEntry], Field(min_length=1, max_length=MAX_CONSTRAINTS)]
    """What the policy must obey."""
    settings: RunSettings = RunSettings()
    """How the run learns."""
    pass_mark: float | None = None
    """The 100-episode average that counts as solved."""
    picture: PictureEntry | None = None
    """The plane that pictures of the policy show."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the observations; none where these are given by their shape."""
        return () if isinstance(self.observations, dict) else tuple(self.observations)


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of constraint files."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **File.model_json_schema(),
        "title": "Handrail constraint file",
    }
