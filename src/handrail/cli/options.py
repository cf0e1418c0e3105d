"""What users write on the command line: options that commands share, and their text as values."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import handrail as hr
from handrail.errors import InvalidArgument, InvalidRulebook

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run, or a group of runs.")]

RuleFile = Annotated[
    str, typer.Argument(metavar="FILE|NAME", help="A constraint file, or a bundled one's name.")
]

Imports = Annotated[
    list[str] | None,
    typer.Option("--import", help="A module to import first: it registers your environments."),
]

On = Annotated[
    str,
    typer.Option(help="Where: processes, ray, a Ray cluster's address (HOST:PORT), or slurm."),
]

Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Always the most probable action.")
]

Best = Annotated[
    bool,
    typer.Option("--best", help="Of a run, the policy whose last 100 episodes scored best."),
]

Statistics = Annotated[
    Path | None,
    typer.Option(
        help="Of a .zip that was trained behind VecNormalize: the file that its `save` wrote, a "
        "pickle as well. Constraints are in the environment's own numbers then."
    ),
]

Json = Annotated[
    bool, typer.Option("--json", help="Answer as JSON, with nothing else on standard output.")
]

NoReport = Annotated[
    bool, typer.Option("--no-report", help="No page and no pictures: many tasks need one in all.")
]

Over = Annotated[
    str | None, typer.Option(help="Two observations of the picture's plane: phi,phi_dot.")
]

At = Annotated[list[str] | None, typer.Option(help="Values of the other observations: x=0.")]


def import_modules(modules: Sequence[str] | None) -> None:
    """Import what registers the user's environments; only the command line may ask for that."""
    if modules:
        allow_modules_of_the_folder()
    for module in modules or ():
        if module.endswith(".py"):
            raise InvalidArgument(
                f"--import {module}: expected the name of a module, such as {module[:-3]}."
            )
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever the user's module does
            raise InvalidArgument(f"--import {module}: {type(error).__name__}: {error}.") from error


def allow_modules_of_the_folder() -> None:
    """The user's modules may lie in the present folder, as `python -m` has it."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def open_one(
    path: Path, purpose: str, book: hr.Rulebook | None, best: bool, statistics: Path | None
) -> hr.runs.SavedPolicy:
    """The one policy that a command is about; of a run its last, or its best."""
    if best and statistics is None:
        return hr.runs.open_best_policy(path, purpose)
    if best:
        raise InvalidArgument("--best is about a run, --statistics about a .zip: choose one.")
    return hr.runs.open_policy(path, purpose, book, statistics)


def settings_of(pairs: Sequence[str] | None, **named: Any) -> dict[str, Any]:
    """`--set discount=0.99` and the options that have a name of their own, as settings."""
    settings: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    for pair in pairs or ():
        key, separator, text = pair.partition("=")
        if not separator or not key:
            raise InvalidArgument(
                f"--set {pair}: expected name=value, such as --set discount=0.999."
            )
        try:
            hr.settings.put_setting(settings, hr.settings.setting_path(key), _value(text))
        except InvalidArgument as error:
            raise InvalidArgument(f"--set {pair}: {error}") from None
    return settings


def _value(text: str) -> Any:
    try:
        return hr.rulebook.read_value(text)
    except InvalidRulebook as error:
        raise InvalidArgument(f"{text!r} is not a value.") from error


def axis_of(pair: str, option: str = "--grid") -> hr.runs.Axis:
    """`--grid step_size=1e-4,3e-4` as a setting with its values."""
    name, separator, text = pair.partition("=")
    try:
        values = _value(f"[{text}]") if name and separator else None
    except InvalidArgument:
        values = None
    if not values:
        raise InvalidArgument(
            f"{option} {pair}: expected name=value,value,…, such as {option} step_size=1e-4,3e-4."
        )
    return hr.runs.Axis(name, tuple(values))


def space_of(pair: str) -> hr.runs.Axis | hr.runs.Span:
    """`--space step_size=1e-5..1e-3:log` as a range; or values, as in a grid."""
    name, _, text = pair.partition("=")
    ends, _, scale = text.partition(":")
    low, separator, high = ends.partition("..")
    if not separator:
        return axis_of(pair, "--space")
    first, last = _value(low), _value(high)
    if scale not in ("", "log") or not all(_is_number(one) for one in (first, last)):
        raise InvalidArgument(
            f"--space {pair}: expected name=low..high or name=low..high:log, such as --space "
            "step_size=1e-5..1e-3:log."
        )
    return hr.runs.Span(name, first, last, log=bool(scale))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def plane_of(
    rulebook: hr.Rulebook, over: str | None, at: Sequence[str] | None
) -> hr.report.Plane | None:
    """`--over phi,phi_dot --at x=0` as a plane; None where there is none to choose."""
    if len(rulebook.observations) < 2 and not (over or at):
        return None
    names = None if over is None else tuple(name.strip() for name in over.split(","))
    return hr.report.Plane.of(rulebook, names, dict(_fixed(pair) for pair in at or ()))


def _fixed(pair: str) -> tuple[str, float]:
    """`x=0` as a name and a number."""
    name, _, text = pair.partition("=")
    try:
        return name.strip(), float(text)
    except ValueError:
        raise InvalidArgument(
            f"--at {pair}: expected name=number, such as --at {name}=0."
        ) from None


def box_of(rulebook: hr.Rulebook, pairs: Sequence[str]) -> hr.Box:
    """`--max-change-in x=-1..1 --max-change-in phi=0` as a box."""
    ends = dict(_ends(pair) for pair in pairs)
    for name in (*ends, *rulebook.observations):
        if name not in rulebook.observations or name not in ends:
            raise InvalidArgument(
                f"--max-change-in needs a range or a value for each observation of this file, "
                f"{', '.join(rulebook.observations)}, and has {', '.join(ends)}."
            )
    low, high = zip(*(ends[name] for name in rulebook.observations), strict=True)
    return hr.Box(low, high)


def _ends(pair: str) -> tuple[str, tuple[float, float]]:
    """`x=-1..1` as a name and a range; `x=0` as one of a single number."""
    name, _, text = pair.partition("=")
    low, separator, high = text.partition("..")
    try:
        return name.strip(), (float(low), float(high if separator else low))
    except ValueError:
        raise InvalidArgument(
            f"--max-change-in {pair}: expected name=low..high or name=number, such as {name}=-1..1."
        ) from None


def refuse_ending(target: Path, ending: str, what: str) -> None:
    """A name that says something else than what the file will be."""
    if target.suffix != ending:
        raise InvalidArgument(
            f"{what} is written as a {ending} file, so --out {target} should be "
            f"{target.with_suffix(ending)}."
        )


def refuse_existing(path: Path, option: str) -> None:
    """A file that is there already, or a folder that is not."""
    if path.exists():
        raise InvalidArgument(
            f"{path} exists already. Delete it first, or choose another name with {option}."
        )
    if not path.parent.is_dir():
        raise InvalidArgument(f"{path} cannot be written: there is no folder {path.parent}.")
