"""docs/reference/cli.md: every command with its arguments and options, from the commands themselves."""

import inspect
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

import typer

from daemon.cli import app
from tests.docs.shapes import table

HEAD = """# Reference: commands

Made by `make reference` from the commands themselves; `stoker COMMAND --help` says the same.

## Exit codes

| code | of | means |
| --- | --- | --- |
| 0 | all | success |
| 1 | `wait`, `submit --wait` | a job that was waited for did not finish |
| 1 | `demo` | a job did not finish, or its result was wrong |
| 1 | `config check`, `doctor` | there are faults to fix |
| 1 | `simulate`, `evaluate`, `what-if`, `policy compare` | a policy failed in most decisions: see stderr |
| 1 | `profile compare`, `reproduce leaderboard` | a policy failed in most decisions: see stderr |
| 1 | all | the reader of the output has ended |
| 2 | all | bad input, an impossible request, or no daemon answered: stderr has the reason in one line |
| 3 | `python -m stoker wait --timeout` | the time-out was reached |
| 130 | all | Ctrl-C |
| 143 | `demo`, `profile run` | SIGTERM |

"""
#: What is the same wherever it stands, and stands here once.
_COMMON = ("url", "token_file", "ca")


def cli_reference() -> str:
    """The page."""
    root: Any = typer.main.get_command(app)
    commands = list(_commands(root, "stoker"))
    lines = [HEAD + "## Options of all commands that use a daemon", ""]
    lines += _options([one for one in root.commands["jobs"].params if one.name in _COMMON])
    lines += ["## The commands", ""]
    lines += table(
        ("command", "does"),
        ((f"[`{path}`](#{path.replace(' ', '-')})", _first(command)) for path, command in commands),
    )
    for path, command in commands:
        lines += [f"### {path}", "", *_described(path, command)]
    return "\n".join(lines).rstrip() + "\n"


def _commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if getattr(command, "hidden", False):
            continue
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _first(command: Any) -> str:
    return (command.help or "").partition("\n")[0]


def _described(path: str, command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument" and not one.hidden]
    options = [
        one
        for one in command.params
        if one.param_type_name == "option" and not one.hidden and one.name not in _COMMON
    ]
    shown = " ".join(_argument(one) for one in arguments)
    yield f"    {path}{' [OPTIONS]' if options else ''}{f' {shown}' if shown else ''}"
    yield ""
    yield inspect.cleandoc(command.help or "").replace("\b\n", "")
    yield ""
    if arguments:
        yield from table(("argument", "is"), ((f"`{_argument(one)}`", one.help or "") for one in arguments))
    if options:
        yield from _options(options)


def _argument(one: Any) -> str:
    name = (one.metavar or one.name.upper()).strip("[]")
    name += "..." if one.nargs == -1 and not name.endswith("...") else ""
    return name if one.required else f"[{name}]"


def _options(options: list[Any]) -> list[str]:
    return list(table(("option", "value", "left out", "does"), map(_option, options)))


def _option(one: Any) -> tuple[str, str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
    value = "" if one.is_flag else _value(one)
    left_out = "" if one.is_flag or one.default in (None, [], ()) else f"`{one.default}`"
    variable = f"`{one.envvar}`" if isinstance(one.envvar, str) else ""
    several = "; repeatable" if one.multiple and "repeat" not in (one.help or "") else ""
    return names, value, ", else ".join(filter(None, (variable, left_out))), (one.help or "") + several


def _value(one: Any) -> str:
    if one.metavar:
        return f"`{one.metavar}`"
    kind = _kind(one.type_descriptor.annotation)
    if one.min is not None or one.max is not None:
        low, high = ("" if bound is None else f"{bound:g}" for bound in (one.min, one.max))
        kind += f" {low}..{high}"
    return kind


def _kind(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(_kind(one) for one in inner if one is not type(None))
    if origin in (list, tuple):
        return _kind(inner[0])
    return {"str": "text", "int": "whole number", "float": "number", "Path": "file"}.get(
        getattr(annotation, "__name__", ""), "text"
    )
