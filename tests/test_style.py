"""Rules of CONTRIBUTING.md about files that no linter knows."""

import ast
import subprocess
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from tests.looking import LOOKING, LOOKING_AT_OWN, TREES, TREES_OF_OWN

REPOSITORY = Path(__file__).parents[1]
#: Bounds of a file, of a folder's own modules, and of modules of ours that one imports.
MOST_LINES, MOST_MODULES, MOST_IMPORTS = 600, 15, 15
#: Folders of one kind of thing, so many of which there are.
LARGE_FOLDERS = {"daemon/store/rows": 20, "environment/kernel": 20}
#: Modules that import more than that today: these numbers may fall, and none may join them.
MANY_IMPORTS = {
    "daemon/cli/operate/maintenance.py": 16,
    "daemon/cli/profile/compare_on_spark.py": 20,
    "daemon/cli/profile/profile.py": 19,
    "daemon/cli/profile/validate_simulator.py": 19,
    "daemon/cli/research/simulate.py": 18,
    "daemon/http/routes/jobs/dry_run.py": 19,
    "daemon/http/server/scheduler_interface.py": 16,
    "daemon/launch/launcher.py": 18,
    "daemon/maintenance/config_check.py": 20,
    "daemon/scheduler/build.py": 16,
    "daemon/server.py": 22,
    "daemon/submission/applications.py": 17,
    "daemon/wiring.py": 20,
    "environment/kernel/arrays.py": 16,
    "environment/model/cluster_model.py": 18,
    "environment/model/jobs/lifecycle.py": 16,
    "environment/model/vms/fleet.py": 16,
}
#: Where the daemon knows Mesos: its one room, and the command that serves the embedded Mesos.
SUBSTRATE = ("daemon/substrate/", "daemon/cli/operate/mesos.py")
PACKAGES = ("agents", "audit", "conf", "daemon", "environment", "framework", "profiles")


def test_no_path_of_a_stranger_is_looked_at_and_then_used() -> None:
    """New functions open users' paths by `framework.host.user_files`, as such files may change between."""
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


def test_no_tree_of_a_stranger_is_removed_or_unpacked_by_its_names() -> None:
    """What removes or unpacks a tree can be led out of it, or ends at a depth that a job may exceed."""
    assert set(called_in(TREES, "daemon", "framework", "audit")) == TREES_OF_OWN


def looked_at() -> dict[tuple[str, str], set[str]]:
    """Which such calls are made, by file and function."""
    found = called_in(LOOKING, "daemon", "framework")
    return {place: calls for place, calls in found.items() if not place[0].startswith("daemon/cli/")}


def called_in(names: Collection[str], *folders: str) -> dict[tuple[str, str], set[str]]:
    """Which of these calls are made, by file and function."""
    return {
        (str(path.relative_to(REPOSITORY)), function): calls
        for top in folders
        for path in (REPOSITORY / top).rglob("*.py")
        for function, calls in looks(ast.parse(path.read_text(encoding="utf-8")), names).items()
    }


def looks(node: ast.AST, names: Collection[str] = LOOKING, function: str = "") -> dict[str, set[str]]:
    """Such calls by the outermost function or method that makes them."""
    found: dict[str, set[str]] = {}
    for child in ast.iter_child_nodes(node):
        if (name := called(child)) in names:
            found.setdefault(function or "<module>", set()).add(name)
        own = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        for place, calls in looks(child, names, function or own).items():
            found.setdefault(place, set()).update(calls)
    return found


def called(node: ast.AST) -> str:
    """The name of a function or method that is called."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def ours() -> dict[str, ast.Module]:
    """The modules of the packages by path, parsed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    files = [file for file in listed.stdout.splitlines() if file.split("/")[0] in PACKAGES]
    there = [file for file in files if (REPOSITORY / file).exists()]
    assert len(there) > 500
    return {file: ast.parse((REPOSITORY / file).read_text(encoding="utf-8")) for file in there}


def test_files_and_folders_are_of_a_size_to_read() -> None:
    """A folder names its parts: at most 15 modules, of at most 600 lines each."""
    modules = [file for file in ours() if not file.endswith("__init__.py")]
    lines = {file: len((REPOSITORY / file).read_text(encoding="utf-8").splitlines()) for file in modules}
    assert {file: number for file, number in lines.items() if number > MOST_LINES} == {}
    folders = Counter(file.rpartition("/")[0] for file in modules)
    assert {name: n for name, n in folders.items() if n > LARGE_FOLDERS.get(name, MOST_MODULES)} == {}


def test_modules_know_few_others() -> None:
    """At most 15 modules of ours are imported by one, wherever in it the import stands."""
    trees = ours()
    names = {file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in trees}
    counted = {file: len(known(tree, names)) for file, tree in trees.items()}
    many = {file: number for file, number in counted.items() if number > MOST_IMPORTS}
    assert many == MANY_IMPORTS


def known(tree: ast.Module, names: Collection[str]) -> set[str]:
    """The modules among these names that are imported."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            each = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (each & set(names)) or ({node.module} & set(names))
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & set(names)
    return found


def test_names_of_classes_are_unique() -> None:
    """A class is found by its name alone."""
    classes = Counter(
        node.name for tree in ours().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, number in classes.items() if number > 1] == []


def test_only_one_room_of_the_daemon_names_offers_and_agents() -> None:
    """The loop passes all commands on that it does not know; those about offers are among them."""
    named = {
        f"{file}: {name}"
        for file, tree in ours().items()
        if file.startswith("daemon/") and not file.startswith(SUBSTRATE)
        for node in ast.walk(tree)
        for name in (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "arg", "") or "")
        if {"agent", "agents"} & set(name.lower().split("_"))
        or "offer" in name.lower()
        or "framework_id" in name
    }
    # The id of the last subscription is stored for the substrate.
    assert named == {"daemon/scheduler/saving.py: framework_id"}


def test_only_one_room_of_the_daemon_names_the_substrates_folders() -> None:
    """The layout of Mesos' folders is known to `framework/task_folders.py`."""
    named = {
        f"{file}: {part}"
        for file, tree in ours().items()
        if file.startswith("daemon/") and not file.startswith(SUBSTRATE)
        for node in ast.walk(tree)
        for part in path_parts(node)
        if {"mesos", "agents", "frameworks"} & set(part.split("/"))
    }
    assert named == set()


def path_parts(node: ast.AST) -> Iterator[str]:
    """The strings of an expression that makes a path by `/`, or by a method or class of paths."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts = [node.left, node.right]
    elif called(node) in {"Path", "PurePath", "PurePosixPath", "joinpath", "glob", "rglob"}:
        parts = node.args if isinstance(node, ast.Call) else []
    values = [part.value for part in parts if isinstance(part, ast.Constant)]
    return (value for value in values if isinstance(value, str))
