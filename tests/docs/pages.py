"""Contents of pages: commands, files, and outputs between markers; for the tests that run them."""

import ast
import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))
#: A command whose output stands below it, and with which of its lines: all, or those where this is found.
OUTPUT = re.compile(
    r"<!-- output of: (?P<command>.*?)(?:, lines with (?P<lines>.*?))? -->\n"
    r"```text\n(?P<shown>.*?)```\n<!-- end -->",
    re.DOTALL,
)


def commands(page: Path) -> list[str]:
    """Commands behind `$` in the page's blocks, whole where they go on below."""
    text = page.read_text(encoding="utf-8").replace("\\\n", "")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def files(page: Path) -> dict[str, str]:
    """The files that a page shows: blocks that begin with a name (`# stoker.yaml`), or are called by one."""
    text = page.read_text(encoding="utf-8")
    found: dict[str, str] = dict(re.findall(r"```yaml\n# (\S+\.yaml)\n(.*?)```", text, re.DOTALL))
    return found


def programs(page: Path) -> dict[str, str]:
    """The programs that a page shows, by the names under which it has them kept."""
    text = page.read_text(encoding="utf-8")
    found: dict[str, str] = dict(re.findall(r"file `(\w+\.py)`:\n\n```python\n(.*?)```", text, re.DOTALL))
    return found


def is_collected(test: str) -> bool:
    """Whether `tests/FILE.py::test_NAME` is a function that pytest finds, and does not skip everywhere."""
    file, _, function = test.partition("::")
    path = REPOSITORY / file
    if not (
        file.startswith("tests/")
        and path.name.startswith("test_")
        and function.startswith("test_")
        and path.is_file()
    ):
        return False
    body = ast.parse(path.read_text(encoding="utf-8")).body
    found = [one for one in body if isinstance(one, ast.FunctionDef) and one.name == function]
    marks = [ast.unparse(mark) for one in found for mark in one.decorator_list]
    marks += [ast.unparse(one) for one in body if isinstance(one, ast.Assign)]
    return len(found) == 1 and not any("mark.skip(" in mark or mark.endswith("mark.skip") for mark in marks)
