"""Contents of docs/submit.md, for the tests that run it."""

import re
import shlex
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs/submit.md"


def commands(section: str, program: str = "stoker") -> list[list[str]]:
    """The arguments of each command of this program in a section of the page."""
    lines = [line for block in blocks(section, "console") for line in block.splitlines()]
    found = [shlex.split(line[2:].partition(" # ")[0]) for line in lines if line.startswith("$ ")]
    return [words[1:] for words in found if words[0] == program]


def programs(section: str) -> list[str]:
    """Python programs in a section that need a Spark."""
    return blocks(section, "py")


def blocks(section: str, kind: str) -> list[str]:
    """Blocks of one kind in a section, such as json."""
    text = _PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)
