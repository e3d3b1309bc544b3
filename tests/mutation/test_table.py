"""The table of mutants fits the tree, so that `make mutants` can be run at any time; and so do the docs."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutation.__main__ import REPOSITORY, table

#: A test as the docs name it: its file, perhaps with a folder, and if need be its function.
_NAMED = re.compile(r"`((?:[\w/]*/)?test_\w+)?(?:::(test_\w+))?`")
DOCS = ("docs/reliability.md", "SECURITY.md")


def functions(path: Path) -> set[str]:
    """The tests in a file."""
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_table_fits_the_tree() -> None:
    """Each text stands once, what is put there compiles, and its tests are there."""
    for mutant in table():
        assert mutant.broken, mutant.claim
        for test in mutant.tests:
            file, _, name = test.partition("::")
            assert not name or name.partition("[")[0] in functions(REPOSITORY / file), mutant.claim


@pytest.mark.parametrize("doc", DOCS)
def test_tests_that_the_docs_name_are_there(doc: str) -> None:
    """Each row names the tests that hold it."""
    there: dict[str, set[str]] = defaultdict(set)
    for path in (REPOSITORY / "tests").rglob("test_*.py"):
        there[path.stem] |= functions(path)
    named = list(named_in((REPOSITORY / doc).read_text()))
    assert len(named) > 20
    for file, name in named:
        assert file in there, (file, name)
        assert not name or name in there[file], (file, name)


def named_in(text: str) -> Iterator[tuple[str, str]]:
    """File and function (or nothing) of all tests that a text names; `::name` is in the file before it."""
    file = ""
    for found, name in _NAMED.findall(text):
        file = found.rpartition("/")[2] or file
        if found or name:
            yield file, name
