"""What CONTRIBUTING.md says of files and no linter knows."""

import ast
import subprocess
from pathlib import Path

from tests.looking import LOOKING, LOOKING_AT_OWN

REPOSITORY = Path(__file__).parents[1]
#: Lines of a file of the packages, at most.
MOST_LINES = 400
#: Made by `make openapi`.
MADE = frozenset({"client/stoker/answers.py"})


def test_no_path_of_a_stranger_is_looked_at_and_then_used() -> None:
    """A function that is new here opens users' paths by `framework.host.user_files`: they may change between."""
    found = looked_at()
    assert {place: calls for place, calls in found.items() if place not in LOOKING_AT_OWN} == {}
    assert LOOKING_AT_OWN - set(found) == set(), "no longer there"


def test_such_a_look_is_found_wherever_it_is_made() -> None:
    """In methods, in functions within others, and outside of all."""
    text = """
size = path.stat()
class Files:
    def take(self):
        def inner(): return Path(self.spec.app).is_dir()
        copy2(self.spec.app, self.folder)
"""
    assert looks(ast.parse(text)) == {"<module>": {"stat"}, "take": {"is_dir", "copy2"}}


def looked_at() -> dict[tuple[str, str], set[str]]:
    """Which such calls are made, by file and function."""
    paths = [path for top in ("daemon", "framework") for path in (REPOSITORY / top).rglob("*.py")]
    names = {str(path.relative_to(REPOSITORY)): path for path in paths}
    return {
        (name, function): calls
        for name, path in names.items()
        if not name.startswith("daemon/cli/")
        for function, calls in looks(ast.parse(path.read_text(encoding="utf-8"))).items()
    }


def looks(node: ast.AST, function: str = "") -> dict[str, set[str]]:
    """Such calls by the outermost function or method that makes them."""
    found: dict[str, set[str]] = {}
    for child in ast.iter_child_nodes(node):
        if (name := called(child)) in LOOKING:
            found.setdefault(function or "<module>", set()).add(name)
        own = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        for place, calls in looks(child, function or own).items():
            found.setdefault(place, set()).update(calls)
    return found


def called(node: ast.AST) -> str:
    """The name of a function or method that is called."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def test_files_are_short() -> None:
    """Whoever opens one can read it whole; one that grows beyond that is parted by sense."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    files = {file for file in listed.stdout.splitlines() if not file.startswith("tests/")} - MADE
    assert len(files) > 500
    lines = {file: _lines(REPOSITORY / file) for file in files if (REPOSITORY / file).exists()}
    assert {file: number for file, number in lines.items() if number > MOST_LINES} == {}


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())
