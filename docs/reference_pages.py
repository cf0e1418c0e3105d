"""Writes the reference of the Python names and of the command line: one page per package.

A page is what the package's `__init__` offers (`__all__`): signatures and docstrings, first the
names that `import handrail as hr` has. Run by `make docs`; a test says when a page is out of date.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, final

import typer
import typer.main
from pydantic import BaseModel

import handrail
from handrail.cli import answers

FOLDER = Path(__file__).resolve().parent / "reference"
# In the order in which somebody meets them.
PACKAGES = (
    "constraints",
    "regions",
    "formulas",
    "policies",
    "enforcement",
    "proof",
    "learning",
    "sb3",
    "rulebook",
    "runs",
    "executors",
    "report",
    "studio",
    "export",
    "tangent",
    "settings",
    "errors",
)
# In an environment of its own, where others are not: `make test-rllib` says when it is out of date.
ELSEWHERE = ("rllib",)
_NOTE = "*Written by `make docs` from the docstrings in `src/handrail`.*"
_WIDTH = 80
_FIELDS = ("Args:", "Attributes:")
_REMARKS = ("Returns:", "Raises:")


def pages() -> dict[str, str]:
    """The text of every generated file, by its name in docs/reference."""
    return {
        "handrail.md": _overview(),
        **package_pages(PACKAGES),
        "cli.md": _command_page(),
        answers.SCHEMA: answers.make_answers()[answers.SCHEMA],
    }


def package_pages(packages: Iterable[str]) -> dict[str, str]:
    """The text of a page for each, by its name in docs/reference."""
    return {f"{name}.md": _package_page(name) for name in packages}


def _overview() -> str:
    """What `import handrail as hr` gives, by package."""
    lines = ["# handrail", "", _NOTE, "", "`import handrail as hr` gives these names, and the"]
    lines[-1] += " packages with everything else: `hr.enforcement.update`, `hr.errors.Diverged`."
    for package in PACKAGES:
        module = import_module(f"handrail.{package}")
        lines += ["", f"## [{package}]({package}.md)", "", _summary(module), ""]
        for name in _names(module, of_the_top=True):
            summary = _summary(getattr(module, name))
            lines.append(f"- [`hr.{name}`]({package}.md#{name.lower()}): {summary}")
    return _page(lines)


def _package_page(package: str) -> str:
    module = import_module(f"handrail.{package}")
    top, rest = _names(module, of_the_top=True), _names(module, of_the_top=False)
    lines = [f"# handrail.{package}", "", _NOTE, "", *_docstring(module)]
    for names, prefix in ((top, "hr."), (rest, f"handrail.{package}.")):
        if names:
            lines += ["", f"## `{prefix}…`"]
            for name in names:
                lines += ["", f"### `{name}`", "", *_entry(name, module)]
    return _page(lines)


def _names(module: ModuleType, of_the_top: bool) -> list[str]:
    """Those of its face that are names of `handrail` as well, or are not; first what is called."""
    face = getattr(module, "__all__", None) or _defined_in(module)
    kept = [name for name in face if _is_at_the_top(name, module) == of_the_top]
    return sorted(kept, key=lambda name: _kind(getattr(module, name)))


def _defined_in(module: ModuleType) -> list[str]:
    """The public classes and functions of a plain module, in its order."""
    return [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_")
    ]


def _is_at_the_top(name: str, module: ModuleType) -> bool:
    return name in handrail.__all__ and getattr(handrail, name) is getattr(module, name)


def _kind(value: object) -> int:
    """Functions, then classes, then what is neither."""
    return 0 if inspect.isroutine(value) else 1 if inspect.isclass(value) else 2


def _entry(name: str, module: ModuleType) -> Iterator[str]:
    value = getattr(module, name)
    if _kind(value) == 2:
        yield from _block(_assignment(name, module), "py")
        return
    if inspect.isclass(value) and (inspect.isabstract(value) or issubclass(value, BaseException)):
        bases = ", ".join(base.__name__ for base in value.__bases__)
        yield from _block(f"class {name}({bases})", "py")
    else:
        yield from _block(name + _signature(value, _WIDTH - len(name)), "py")
    yield from _docstring(value)
    if inspect.isclass(value):
        members = list(_members(value, set(getattr(module, "__all__", ()))))
        if members:
            yield from ("", "Members:", "", *members)


def _assignment(name: str, module: ModuleType) -> str:
    """A constant or an alias: as its module writes it, or else its value."""
    for file in sorted(Path(str(module.__file__)).parent.glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else ()
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                text = ast.unparse(node)
                return text if len(text) <= _WIDTH else f"{name} = …"
    return f"{name} = {_default(getattr(module, name))}"


def _signature(value: Any, width: int | None = None, skip: int = 0) -> str:
    """As in the source: on one line if it fits the width, else a line per parameter."""
    signature = inspect.signature(value)
    declared = _declared_types(value)
    parts, star = [], False
    for parameter in list(signature.parameters.values())[skip:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        parts.append(_parameter(parameter, declared.get(parameter.name, parameter.annotation)))
    answer = signature.return_annotation
    named = not inspect.isclass(value) and answer is not signature.empty
    ending = f" -> {_type(answer)}" if named else ""
    line = f"({', '.join(parts)}){ending}"
    if width is None or len(line) <= width:
        return line
    return "(\n" + "".join(f"    {part},\n" for part in parts) + f"){ending}"


def _declared_types(value: Any) -> dict[str, Any]:
    """The fields of a class as written: pydantic's signatures spell out what it checks."""
    bases = reversed(value.__mro__) if inspect.isclass(value) else ()
    return {name: kind for base in bases for name, kind in inspect.get_annotations(base).items()}


def _parameter(parameter: inspect.Parameter, annotation: Any) -> str:
    text = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
    if annotation is not parameter.empty:
        text += f": {_type(annotation)}"
    if parameter.default is not parameter.empty:
        text += f" = {_default(parameter.default)}"
    return text


def _type(annotation: Any) -> str:
    """A type as written, without what pydantic checks of it."""
    if not isinstance(annotation, str):
        return inspect.formatannotation(annotation)
    return ast.unparse(_Unannotated().visit(ast.parse(annotation, mode="eval")))


@final
class _Unannotated(ast.NodeTransformer):
    """Annotated[kind, …] becomes kind."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """The one place where it can stand."""
        annotated = isinstance(node.value, ast.Name) and node.value.id == "Annotated"
        if annotated and isinstance(node.slice, ast.Tuple):
            return self.visit(node.slice.elts[0])  # type: ignore[no-any-return]
        return self.generic_visit(node)


def _default(value: object) -> str:
    """A value as a reader would write it; … where that would be long, or cannot be."""
    text = re.sub(r"\b(?:handrail|torch)\.(?:\w+\.)*", "", repr(value))
    if text.startswith("<") or " at 0x" in text:
        return "…"
    return text if len(text) <= _WIDTH // 2 else f"{type(value).__name__}(…)"


def _members(owner: type, face: set[str]) -> Iterator[str]:
    """Public methods and properties, but for those that a base on the same page has."""
    ours = [base for base in owner.__mro__ if base.__module__.startswith("handrail")]
    listed = {name for base in ours[1:] if base.__name__ in face for name in vars(base)}
    members = {name: value for base in reversed(ours) for name, value in vars(base).items()}
    for name, member in members.items():
        if name.startswith(("_", "model_")) or name in listed:
            continue
        if isinstance(member, classmethod | staticmethod):
            call = f"{owner.__name__}.{name}{_signature(getattr(owner, name))}"
        elif inspect.isfunction(member):
            call = f".{name}{_signature(member, skip=1)}"
        elif isinstance(member, property) or hasattr(member, "func"):
            call = f".{name}"
        else:
            continue
        yield f"- `{call}`: {_summary(getattr(owner, name) if callable(member) else member)}"


def _docstring(value: object) -> list[str]:
    """Its docstring as Markdown: sections of arguments become lists."""
    lines: list[str] = []
    section = ""
    for line in (inspect.getdoc(value) or "").splitlines():
        if line in _FIELDS or line in _REMARKS:
            section = line
            lines += [line] * (line in _REMARKS)
        elif section in _FIELDS and (match := re.fullmatch(r" {4}(\*{0,2}\w+): (.*)", line)):
            lines.append(f"- `{match[1]}`: {match[2]}")
        elif section and line:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    if isinstance(value, type) and issubclass(value, BaseModel):
        described = value.model_fields.items()
        lines += ["", *(f"- `{name}`: {_line(field.description)}" for name, field in described)]
    return lines


def _summary(value: object) -> str:
    """What its docstring says first, on one line."""
    return _line((inspect.getdoc(value) or "").split("\n\n")[0])


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def _command_page() -> str:
    """Every command with its arguments and options."""
    group = typer.main.get_group(import_module("handrail.cli.app").app)
    lines = ["# The command line", "", _NOTE, "", str(group.help)]
    for name, command in sorted(group.commands.items()):
        context = typer.Context(command, info_name=f"handrail {name}")
        usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
        lines += ["", f"## `handrail {name}`", "", *_block(usage)]
        lines += [inspect.cleandoc(command.help or ""), ""]
        lines += [_option(parameter) for parameter in command.params]
    return _page(lines)


def _option(parameter: Any) -> str:
    """An argument or an option: how it is written, and its help."""
    written: Sequence[str] = [*parameter.opts, *parameter.secondary_opts]
    if not written[0].startswith("-"):
        written = [parameter.metavar or written[0].upper()]
    return f"- `{', '.join(written)}`: {parameter.help or ''}"


def _block(text: str, language: str = "") -> list[str]:
    """Code that is shown, and not run: the examples that run are `python`."""
    return [f"```{language}", *text.splitlines(), "```", ""]


def _page(lines: Iterable[str]) -> str:
    text = "\n".join(line.rstrip() for line in lines)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def main(packages: Sequence[str] = ()) -> int:
    """Write what differs from what is there: pages, and what the command line knows by heart.

    Args:
        packages: whose pages alone are written; by default everything but what is `ELSEWHERE`.
    """
    if packages:
        texts = {FOLDER / name: text for name, text in package_pages(packages).items()}
    else:
        texts = {FOLDER / name: text for name, text in pages().items()}
        texts |= {answers.FOLDER / name: text for name, text in answers.make_answers().items()}
    for file, text in texts.items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            print(f"wrote {file.relative_to(FOLDER.parent.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
