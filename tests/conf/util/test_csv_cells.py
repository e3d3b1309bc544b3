"""Cells of CSV: texts of strangers are neither formulas nor escapes of a terminal."""

import pytest

from conf.util.csv_cells import cell


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("etl", "etl"),
        ("=HYPERLINK(A1)", "'=HYPERLINK(A1)"),
        ("-1+2", "'-1+2"),
        ("\t=1", "'\t=1"),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("\x9b2Jx\u202e", r"\x9b2Jx\u202e"),
        (-1.5, -1.5),
        (None, None),
    ],
)
def test_cells(value: object, shown: object) -> None:
    """Numbers stay; what a program would obey is only shown."""
    assert cell(value) == shown
