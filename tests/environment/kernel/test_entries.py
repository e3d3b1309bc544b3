"""Which compiled functions Python may call: those marked so, and these are all that it does call."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from environment.kernel.compiled import njit

ROOT = Path(__file__).parents[3]
FOLDERS = ("agents", "conf", "daemon", "environment", "framework", "profiles", "tests")


class Name(NamedTuple):
    """A name used in a module."""

    module: str
    name: str


class Module(NamedTuple):
    """Declarations and imports of one file."""

    #: Whether Python may call it, by name of each compiled function.
    compiled: dict[str, bool]
    #: What names that it imports mean; of a module, the name is empty.
    imported: dict[str, Name]
    #: Names and attributes of names outside compiled functions.
    named: frozenset[tuple[str, str]]


def _decorator(node: ast.AST) -> ast.Call | None:
    """That of a function which is compiled."""
    if isinstance(node, ast.FunctionDef):
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).split(".")[-1] == "njit":
                return decorator
    return None


def _outside(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Names, and attributes of them, that do not stand in compiled functions or imports."""
    if _decorator(node) or isinstance(node, ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.Attribute):
        yield ast.unparse(node.value), node.attr
    elif isinstance(node, ast.Name):
        yield node.id, ""
    for child in ast.iter_child_nodes(node):
        yield from _outside(child)


def _imported(tree: ast.Module) -> Iterator[tuple[str, Name]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found = Name(inner, "") if _path_of(inner) else Name(node.module, alias.name)
                yield alias.asname or alias.name, found
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, Name(alias.name, "")


def _path_of(module: str) -> Path | None:
    for path in (ROOT / f"{module.replace('.', '/')}.py", ROOT / module.replace(".", "/") / "__init__.py"):
        if path.is_file():
            return path
    return None


@cache
def module_of(path: Path) -> Module:
    """Read a file's declarations; tests may compile functions within functions, for themselves."""
    tree = ast.parse(path.read_text())
    compiled = {
        node.name: any(ast.unparse(keyword) == "entry=True" for keyword in decorator.keywords)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and (decorator := _decorator(node))
    }
    return Module(compiled, dict(_imported(tree)), frozenset(_outside(tree)))


def _meant(name: Name) -> Name | None:
    """The compiled function that the name refers to, if any, also through another module's import."""
    path = _path_of(name.module)
    if path is None or path.relative_to(ROOT).parts[0] not in FOLDERS:
        return None
    module = module_of(path)
    if name.name in module.compiled:
        return name
    further = module.imported.get(name.name)
    return _meant(further) if further and further.name else None


def test_those_are_marked_that_python_calls() -> None:
    """One that only compiled functions call is compiled faster; one that nobody calls so is not marked."""
    marked, called = set[Name](), set[Name]()
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        module, name = module_of(path), ".".join(path.relative_to(ROOT).with_suffix("").parts)
        marked |= {Name(name, each) for each, entry in module.compiled.items() if entry}
        for value, attribute in module.named:
            if attribute:
                held = module.imported.get(value)
                asked = Name(held.module, attribute) if held and not held.name else None
            else:
                asked = module.imported.get(value, Name(name, value))
            if asked and asked.name and (found := _meant(asked)):
                called.add(found)
    assert sorted(marked) == sorted(called)
    assert len(called) > 50


def test_python_cannot_call_one_that_is_not_marked() -> None:
    """Neither before nor after it is compiled; a compiled one can."""

    @njit()
    def less(number: float) -> float:
        return number - 1.0

    @njit(entry=True)
    def twice_less(number: float) -> float:
        return less(number) * 2.0

    refused = r"less is called by compiled functions alone: @njit\(entry=True\) lets Python call it"
    with pytest.raises(TypeError, match=refused):
        less(2.5)
    assert twice_less(2.5) == 3.0
    with pytest.raises(TypeError, match=refused):
        less(2.5)
