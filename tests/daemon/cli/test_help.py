"""Help texts of every `stoker` command."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from daemon.cli import app, main
from daemon.cli.shared.command_groups import SUBCOMMANDS, TITLES


def _examples() -> Iterator[tuple[str, str]]:
    """Pairs of a command and an example in its help."""

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


#: The help of `stoker` and of each group of commands, by the words behind `stoker`.
GROUPS = ["", *SUBCOMMANDS]


@pytest.mark.parametrize("path", GROUPS)
def test_help_lists_every_command_once_in_a_whole_line(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each at 80 columns and in at most eight words; `stoker --help` under its titles, in their order."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*path.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    group: Any = typer.main.get_command(app)
    group = group.commands[path] if path else group
    titles = {"Commands": SUBCOMMANDS[path]} if path else TITLES
    visible = [name for name, command in group.commands.items() if not command.hidden]
    assert sorted(visible) == sorted(name for lines in titles.values() for name in lines)
    assert re.findall(r"^([A-Z][\w ]*):$", shown, re.MULTILINE)[1:][: len(titles)] == [*titles]
    for name, line in (item for lines in titles.values() for item in lines.items()):
        assert len(line.split()) <= 8, line
        assert re.search(rf"^  {name} +{re.escape(line)}$", shown, re.MULTILINE), name
    assert max(map(len, shown.splitlines())) <= 80


def test_every_group_has_lines() -> None:
    """A group of commands that is new has no line until its table has one."""
    root: Any = typer.main.get_command(app)
    assert {name for name, one in root.commands.items() if hasattr(one, "commands")} == SUBCOMMANDS.keys()
