"""Help: what every command of `stoker` says of itself."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from daemon.cli import app


def _examples() -> Iterator[tuple[str, str]]:
    """Each command, and what its help has as an example."""

    def of(group: Any, path: str) -> Iterator[tuple[str, str]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from of(command, f"{path} {name}")
            elif not command.hidden:
                yield f"{path} {name}", (command.help or "").partition("Example: ")[2].strip()

    yield from of(typer.main.get_command(app), "stoker")


@pytest.mark.parametrize(("path", "example"), [*_examples()])
def test_every_command_has_an_example_that_it_understands(path: str, example: str) -> None:
    """It names the command, and all of its options are there."""
    (said,) = re.findall(rf"\b{path}\b([^|)\"]*)", example)
    command: Any = typer.main.get_command(app)
    for word in path.split()[1:]:
        command = command.commands[word]
    from_the_pipe = ["job-7"] if "xargs" in example else []
    command.make_context(path, [*shlex.split(said), *from_the_pipe])
