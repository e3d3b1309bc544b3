"""docs/features.md: every feature names tests, and these are there."""

import re

from tests.docs.pages import REPOSITORY, is_collected

#: As many as users name.
_FEATURES = 31


def test_each_feature_is_shown_by_tests_that_are_there() -> None:
    """Functions of files; a test skipped everywhere would show nothing."""
    page = (REPOSITORY / "docs/features.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")][2:]
    assert len({row[0] for row in rows}) == _FEATURES
    for name, _, shown in rows:
        named = re.findall(r"`(tests/[\w/]+\.py::\w+)`", shown)
        assert named, name
        assert len(named) == shown.count("`") / 2, f"{name}: should be tests/FILE.py::test_NAME"
        missing = [test for test in named if not is_collected(test)]
        assert not missing, name


def test_what_is_no_test_is_found_out() -> None:
    """A file, a function or its name that is not there, and a helper."""
    here = "tests/docs/test_features.py"
    assert is_collected(f"{here}::test_what_is_no_test_is_found_out")
    for wrong in (
        here,
        f"{here}::test_nothing",
        "tests/docs/pages.py::is_collected",
        f"{here}x::test_nothing",
    ):
        assert not is_collected(wrong)
