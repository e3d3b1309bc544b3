"""The table of mutants fits the tree, so that `make mutants` can be run at any time."""

import ast
from functools import cache
from pathlib import Path

from tests.mutation.__main__ import REPOSITORY, table


@cache
def functions(path: Path) -> set[str]:
    """The tests in a file."""
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_table_fits_the_tree() -> None:
    """Each text occurs once, its replacement compiles, and its tests are there."""
    for mutant in table():
        assert mutant.broken, mutant.claim
        for test in mutant.tests:
            file, _, name = test.partition("::")
            assert not name or name.partition("[")[0] in functions(REPOSITORY / file), mutant.claim
