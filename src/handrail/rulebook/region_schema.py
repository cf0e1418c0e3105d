"""The form of a region in a file: a number or a range for each observation, and at most one shape.

`others` stands for all observations that are not named, `any` for all that the environment observes
of one.

Alternatives, here and in the whole file, are told apart by the type of what is written, so that a
message is about the one that was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, final

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from handrail.settings import STRICT

# Tags of the alternatives: no name in a file can be mistaken for them in pydantic's paths.
GRID, TEXT, NUMBER, LIST, MAPPING = "<grid>", "<text>", "<number>", "<list>", "<mapping>"
STATES = "<states>"


def tag_by_type(**tags: type | tuple[type, ...]) -> Callable[[Any], str | None]:
    """What tells alternatives apart: the first tag whose type fits."""

    def tag_of(value: Any) -> str | None:
        fitting = (f"<{tag}>" for tag, kind in tags.items() if isinstance(value, kind))
        return next(fitting, None)

    return tag_of


# Key for all observations that an entry does not name, and a range that is the environment's.
OTHERS, ANY = "others", "any"

# Reserved in a region, with an example of each.
SHAPES = {
    "polytope": "{of: [phi, phi_dot], vertices: [[0, 0], [0, 1], [1, 0]]}",
    "ball": "{of: [phi, phi_dot], centre: [0, 0], radius: 0.1}",
    "curve": '{from: 0, to: 1, phi: "0.2 + 0.1*t"}',
}

# Hulls of more dimensions, or of more vertices, take minutes.
_MAX_DIMENSIONS = 6

_MAX_VERTICES = 1000

# Volumes are products of several numbers, and must neither overflow nor vanish.
LARGEST, SMALLEST = 1e30, 1e-30


def _check_size(value: float) -> float:
    if abs(value) > LARGEST:
        raise PydanticCustomError(
            "size",
            f"{value:g} is too large for a region: at most {LARGEST:g}, either way. Use other "
            "units.",
        )
    return value


def _check_ends(ends: list[float]) -> list[float]:
    if len(ends) != 2:
        raise PydanticCustomError(
            "range",
            f"a range has two ends, such as [-2, 2], but this one has {len(ends)}. For single "
            "states use `where`.",
        )
    if ends[0] >= ends[1]:
        raise PydanticCustomError(
            "range",
            f"a range goes up, but {ends[0]:g} is not below {ends[1]:g}. Exchange the two, or give "
            "a single number.",
        )
    return ends


def _check_dimensions(of: list[str]) -> list[str]:
    if not 2 <= len(of) <= _MAX_DIMENSIONS:
        raise PydanticCustomError(
            "dimensions",
            f"a polytope is in 2 to {_MAX_DIMENSIONS} observations, but `of` names {len(of)}. Give "
            "the others a number or a range, beside the polytope.",
        )
    return of


def _check_union(parts: list[Any]) -> list[Any]:
    if len(parts) < 2:
        raise PydanticCustomError(
            "union",
            f"a list of regions is their union and has at least 2, but this one has {len(parts)}. "
            "Write a single region as a mapping, without the list.",
        )
    return parts


def _tag_of_extent(value: Any) -> str | None:
    """No other text than `any` is one."""
    return TEXT if value == ANY else tag_by_type(list=list, number=(int, float))(value)


Number: TypeAlias = Annotated[float, AfterValidator(_check_size)]

Extent: TypeAlias = Annotated[
    Annotated[Number, Tag(NUMBER)]
    | Annotated[
        list[Number],
        AfterValidator(_check_ends),
        Field(json_schema_extra={"minItems": 2, "maxItems": 2}),
        Tag(LIST),
    ]
    | Annotated[Literal["any"], Tag(TEXT)],
    Discriminator(
        _tag_of_extent,
        custom_error_type="extent",
        custom_error_message="expected a number, a range such as [-2, 2], or any",
    ),
]

Formula: TypeAlias = Annotated[
    Annotated[Number, Tag(NUMBER)] | Annotated[str, Tag(TEXT)],
    Discriminator(
        tag_by_type(text=str, number=(int, float)),
        custom_error_type="formula",
        custom_error_message='expected a number, or an expression such as "0.05*cos(t) - 0.2"',
    ),
]


@final
class PolytopeEntry(BaseModel):
    """A polygon, or a convex polytope in more observations."""

    model_config = STRICT | {
        "json_schema_extra": {
            "oneOf": [{"required": ["vertices"]}, {"required": ["half_spaces"]}],
        }
    }

    of: Annotated[
        list[str],
        AfterValidator(_check_dimensions),
        Field(json_schema_extra={"minItems": 2, "maxItems": _MAX_DIMENSIONS}),
    ]
    """The observations it is in."""
    vertices: (
        Annotated[list[list[Number]], Field(min_length=3, max_length=_MAX_VERTICES)] | None
    ) = None
    """Its corners, a number for each observation of `of`; of two observations in order around the
    boundary."""
    half_spaces: Annotated[list[str], Field(min_length=1, max_length=_MAX_VERTICES)] | None = None
    """Linear inequalities that all hold in it, such as phi_dot <= -8*phi - 2."""

    @model_validator(mode="after")
    def _is_given_once(self) -> PolytopeEntry:
        if (self.vertices is None) == (self.half_spaces is None):
            found = "neither is here. Add" if self.vertices is None else "both are here. Remove"
            raise PydanticCustomError(
                "polytope",
                f"a polytope is given by `vertices` or by `half_spaces`, but {found} one of them.",
            )
        return self


@final
class BallEntry(BaseModel):
    """All states within a radius of a centre."""

    model_config = STRICT

    of: Annotated[list[str], Field(min_length=1)]
    """The observations it is in."""
    centre: list[Number]
    """A number for each observation of `of`."""
    radius: Annotated[Number, Field(gt=0.0)]
    """Euclidean, in the observations of `of`."""


@final
class CurveEntry(BaseModel):
    """The states that expressions give as t runs; further keys are observations."""

    model_config = STRICT | {"extra": "allow"}
    __pydantic_extra__: dict[str, Formula]

    from_: Annotated[Number, Field(alias="from")]
    """Where t begins."""
    to: Number
    """Where t ends."""

    @property
    def formulas(self) -> Mapping[str, float | str]:
        """By observation."""
        return self.__pydantic_extra__

    @model_validator(mode="after")
    def _goes_somewhere(self) -> CurveEntry:
        if self.from_ >= self.to:
            raise PydanticCustomError(
                "curve", f"t goes up, but from {self.from_:g} is not below to {self.to:g}."
            )
        if not self.formulas:
            raise PydanticCustomError(
                "curve",
                "a curve needs an expression in t for at least one observation, such as "
                f"{SHAPES['curve']}.",
            )
        return self


@final
class RegionEntry(BaseModel):
    """A number, a range or `any` for each observation that is not in the shape, or `others`."""

    model_config = STRICT | {
        "extra": "allow",
        "json_schema_extra": {
            "not": {
                "anyOf": [
                    {"required": ["polytope", "ball"]},
                    {"required": ["polytope", "curve"]},
                    {"required": ["ball", "curve"]},
                ]
            }
        },
    }
    __pydantic_extra__: dict[str, Extent]

    polytope: PolytopeEntry | None = None
    """A polygon or polytope in some of the observations, by its vertices or by half-spaces."""
    ball: BallEntry | None = None
    """A disk or ball in some of the observations."""
    curve: CurveEntry | None = None
    """Expressions in t for some of the observations; the others are numbers."""

    @property
    def extents(self) -> Mapping[str, float | list[float] | Literal["any"]]:
        """The observations outside the shape, and `others`."""
        return self.__pydantic_extra__

    @property
    def inside(self) -> tuple[str, ...]:
        """The observations of the shape, as they are named."""
        shape = self.polytope or self.ball
        if shape is not None:
            return tuple(shape.of)
        return () if self.curve is None else tuple(self.curve.formulas)

    @field_validator(*SHAPES, mode="before")
    @classmethod
    def _is_a_mapping(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict | BaseModel):
            name = str(info.field_name)
            raise PydanticCustomError(
                "shape",
                f"{name!r} is the key of a shape, and no observation of a region can be called so: "
                f"expected a mapping such as {SHAPES[name]}",
            )
        return value

    @model_validator(mode="after")
    def _has_one_shape(self) -> RegionEntry:
        given = [name for name in SHAPES if getattr(self, name) is not None]
        if len(given) > 1:
            raise PydanticCustomError(
                "shapes",
                f"a region has at most one shape, but this one has {' and '.join(given)}. For "
                "their union write a list of regions.",
            )
        return self


RegionOrUnion: TypeAlias = Annotated[
    Annotated[RegionEntry, Tag(MAPPING)]
    | Annotated[
        list[RegionEntry],
        AfterValidator(_check_union),
        Field(json_schema_extra={"minItems": 2}),
        Tag(LIST),
    ],
    Discriminator(
        tag_by_type(mapping=(dict, RegionEntry), list=list),
        custom_error_type="region",
        custom_error_message="expected a mapping such as {x: [-2, 2], phi: 0.25}, or a list of "
        "such mappings",
    ),
]
