"""What CONTRIBUTING.md says of files and no linter knows."""

import ast
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
#: Lines of a file of the packages, at most.
MOST_LINES = 400
#: Made by `make openapi`.
MADE = frozenset({"client/stoker/answers.py"})

#: Calls that look at a path and leave its use for later, or open it.
LOOKING = frozenset({"is_file", "exists", "resolve", "copyfile", "is_zipfile", "open"})
#: Files that call them for the daemon's own paths, to which no job gives a name; and those made for paths of
#: strangers: user_files and hostile_files open them, fetch and enter have become the user, rights and
#: runnable judge files that user_files has opened.
LOOKING_AT_OWN = frozenset(
    {f"daemon/{name}.py" for name in (
        "arrivals", "backup", "config_check", "database", "doctor", "effects", "embedded", "event_logs",
        "event_rows", "folders", "handing", "host_checks", "intake", "journal", "kept_logs", "launch_records",
        "launcher", "listing", "machines", "past", "store", "storefile", "uploads", "rights", "runnable",
    )}
    | {f"framework/{name}.py" for name in (
        "embedded/credentials", "embedded/isolation/cgroups", "embedded/isolation/isolation",
        "embedded/mesos_server", "embedded/pool_vms", "embedded/processes", "spark/backend_jar",
        "spark/fetching", "spark/homes", "spark/supervisor", "user_files", "hostile_files", "embedded/fetch",
        "embedded/isolation/enter",
    )}
)  # fmt: skip


def test_no_path_of_a_stranger_is_looked_at_and_then_used() -> None:
    """A file that is new here opens users' paths by `framework.host.user_files`, as they may change between."""
    found = {}
    for top in ("daemon", "framework"):
        for path in (REPOSITORY / top).rglob("*.py"):
            name = str(path.relative_to(REPOSITORY))
            if name not in LOOKING_AT_OWN and not name.startswith("daemon/cli/"):
                tree = ast.parse(path.read_text(encoding="utf-8"))
                if calls := {called(node) for node in ast.walk(tree)} & LOOKING:
                    found[name] = calls
    assert found == {}


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
