"""Commands that fetch from a daemon and print: their common options, their client and the forms of output."""

import contextlib
import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from stoker.characters import visible

from daemon.cli.shared.options import DEFAULT_URL, Ca, Output, TokenFile, Url, connect, print_json

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Fetched:
    """The output of a command, in each form that its --output may name."""

    #: The API's own JSON.
    json: Any
    #: For people: a text, or the function that makes tables, wide ones if its argument is true.
    shown: "str | Callable[[bool], Iterable[RenderableType]]"
    #: Names of the listed things.
    names: Iterable[str] = ()
    #: Lines of a spreadsheet, the titles first.
    rows: Iterable[Sequence[object]] = ()
    exit_code: int = 0


def fetches(
    output: Any = Output,
) -> Callable[[Callable[..., Fetched | int | None]], Callable[..., int]]:
    """Make a command of a function that fetches with a client and returns an answer, which is printed.

    The command has the function's options and then --url, --token-file, --ca and --output, the last of the
    given type. The function's parameters may also be `connect`, which makes the client, instead of `client`,
    and `token_file` and `output`. A function that prints by itself returns its exit code.
    """

    def decorate(function: Callable[..., Fetched | int | None]) -> Callable[..., int]:
        wanted = inspect.signature(function).parameters
        common = {"url": (Url, DEFAULT_URL), "token_file": (TokenFile, None), "ca": (Ca, None)}
        common["output"] = (output, "table")
        parameters = [
            *(
                parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                for name, parameter in wanted.items()
                if name not in {"client", "connect", *common}
            ),
            *(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=type_)
                for name, (type_, default) in common.items()
            ),
        ]

        @wraps(function)
        def command(**given: Any) -> int:
            about = {name: given.pop(name) for name in common}
            given |= {name: value for name, value in about.items() if name in wanted}
            connecting = partial(connect, about["url"], about["token_file"], about["ca"])
            with contextlib.nullcontext(connecting) if "connect" in wanted else connecting() as first:
                answer = function(first, **given)
                return show(answer, about["output"]) if isinstance(answer, Fetched) else answer or 0

        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def show(answer: Fetched, output: str) -> int:
    """Print an answer in the requested form; its exit code."""
    if output == "json":
        print_json(answer.json)
    elif output == "yaml":
        import yaml

        plain = json.loads(json.dumps(answer.json))  # YAML knows dictionaries of no other class
        print(visible(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)), end="")
    elif output == "name":
        for name in answer.names:
            print(visible(name))
    elif output == "csv":
        import csv
        import sys

        from conf.util.csv_cells import cell

        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerows(map(cell, row) for row in answer.rows)
    elif isinstance(answer.shown, str):
        print(visible(answer.shown))
    else:
        from daemon.cli.shared import render

        render.show(*answer.shown(output == "wide"), wide=output == "wide")
    return answer.exit_code
