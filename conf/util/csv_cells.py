"""Cells of CSV for people: nothing in them is a formula of a spreadsheet, or steers a terminal."""

from stoker.characters import visible

#: How a spreadsheet knows a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> object:
    """The value; a text with invisible characters as escapes, and ' before a would-be formula."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if value.startswith(_FORMULA) else text
