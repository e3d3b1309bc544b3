"""Runs the commands on pages with an output, and puts the output there: `make docs-output`."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.docs.pages import OUTPUT, PAGES, REPOSITORY, programs

#: Wide enough for the tables of simulations.
_COLUMNS = "156"


def refreshed(page: Path, folder: str) -> str:
    """The page with its commands' present output, in that folder."""
    text = page.read_text(encoding="utf-8")
    for name, program in programs(page).items():
        (Path(folder) / name).write_text(program, encoding="utf-8")
    return OUTPUT.sub(lambda found: _block(found, folder), text)


def _block(found: "re.Match[str]", folder: str) -> str:
    command, *words = shlex.split(found["command"])
    assert command == "stoker", found["command"]
    wanted = re.compile(found["lines"] or "")
    lines = [line.rstrip() for line in _printed(tuple(words), folder).splitlines() if wanted.search(line)]
    was = found["shown"]
    return found[0].replace(f"```text\n{was}```", "```text\n" + "\n".join(lines) + "\n```")


@cache
def _printed(words: tuple[str, ...], folder: str) -> str:
    """The command's output; it is run once for all pages that show it."""
    answer = subprocess.run(
        [Path(sys.executable).with_name("stoker"), *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": _COLUMNS},
        check=True,
        capture_output=True,
        text=True,
    )
    return answer.stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for one in PAGES:
            if OUTPUT.search(one.read_text(encoding="utf-8")):
                one.write_text(refreshed(one, made), encoding="utf-8")
                print(f"{one.relative_to(REPOSITORY)}: its outputs are those of today")
