"""docs/features.md: every feature names tests, and these are there."""

import ast
import re

from tests.docs.pages import REPOSITORY

#: As many as users name.
_FEATURES = 25


def test_each_feature_is_shown_by_tests_that_are_there() -> None:
    """Functions of files; what is skipped everywhere would show nothing."""
    page = (REPOSITORY / "docs/features.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")][2:]
    assert len({row[0] for row in rows}) == _FEATURES
    for name, _, shown in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", shown)
        assert named, name
        assert len(named) == shown.count("`") / 2, f"{name}: should be tests/FILE.py::test_NAME"
        for file, function in named:
            tree = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
            found = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == function]
            assert found, f"{file}::{function}"
            marks = ast.unparse(ast.List([*found[0].decorator_list], ast.Load()))
            assert "mark.skip(" not in marks, f"{file}::{function}"
