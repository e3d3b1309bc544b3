"""Options that many commands share, and messages beside a command's output."""

import inspect
import json
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from stoker.characters import visible, visible_json

if TYPE_CHECKING:
    from stoker import Stoker

#: Default folder of reports: published ones (docs/results) are only written when named.
RESULTS = Path("stoker-results")
DEFAULT_URL = "http://127.0.0.1:8642"

Url = Annotated[str, typer.Option("--url", envvar="STOKER_URL", help="URL of the daemon.")]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", envvar="STOKER_TOKEN_FILE", help="File with the daemon's bearer token."),
]
Ca = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        envvar="STOKER_CA",
        metavar="FILE",
        help=("Certificates of the authority of the daemon's certificate, in PEM."),
    ),
]
Output = Annotated[
    Literal["table", "json"], typer.Option("-o", "--output", help="Format: a table, or the API's JSON.")
]
ListOutput = Annotated[
    Literal["table", "wide", "json", "yaml", "name"],
    typer.Option(
        "-o",
        "--output",
        help=(
            "Format: a table (wide: all columns in full), the API's JSON, the same as YAML, or names, one "
            "per line."
        ),
    ),
]
BeliefOption = Annotated[
    str,
    typer.Option(
        "--belief",
        metavar="BELIEF",
        help=(
            "Beliefs of policies about jobs' durations: exact (the truth), spread (with the error measured "
            "for each type), a number (with a log-normal error of that standard deviation, such "
            "as 0.2), or constant (the workload's mean for all)."
        ),
    ),
]
ReportFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the report.")]
#: Of a flag that can be repeated.
Many = list[str] | None
JobIds = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...", help="Ids or names of jobs, ids of arrays, names of groups.", show_default=False
    ),
]
JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id or name.", show_default=False)]


def option(flag: str, text: str, metavar: str | None = None) -> Any:
    """A flag without a default that help would show."""
    return typer.Option(flag, help=text, metavar=metavar, show_default=False)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer, in which every parameter that is a dataclass of options becomes those options.

    So commands that share options state them once: as annotated fields with defaults, in the order of help.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command).parameters.values():
        if not is_dataclass(parameter.annotation):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = parameter.annotation
        parameters += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
            )
            for field in fields(parameter.annotation)
        ]

    @wraps(command)
    def grouped(**told: Any) -> None:
        made = {
            name: group(**{field.name: told.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**told, **made)

    grouped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    grouped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return grouped


def connect(url: str, token_file: Path | None, ca: Path | None) -> "AbstractContextManager[Stoker]":
    """A client for a daemon; httpx is imported here, because `--help` must not wait for it."""
    import warnings

    from stoker import Stoker

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: notice(str(message))
        return Stoker(url, token_file, ca)


def print_json(value: Any) -> None:
    """Print an answer of the API as it came."""
    print(visible_json(json.dumps(value, indent=2, ensure_ascii=False)))


def notice_left_out(lost: Iterable[str]) -> None:
    """Print on stderr each part of a workload's source that was not read, once."""
    for part in dict.fromkeys(lost):
        notice(f"left out of the workload: {part}")


def notice(text: str) -> None:
    """Print a message on stderr, beside the command's output."""
    print(f"stoker: {visible(text)}", file=sys.stderr, flush=True)
