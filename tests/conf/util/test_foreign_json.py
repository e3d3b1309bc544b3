"""JSON of other programs: its texts can be stored and sent on, and its numbers are numbers."""

import pytest

from conf.util.foreign_json import foreign_json, storable


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, null, "b"]}', {"a": [1, 2.5, None, "b"]}),
        (r'["\ud83d\ude00", "\u00e9"]', ["\U0001f600", "\u00e9"]),
        (r'{"\ud800": [{"a": "x\udfffy"}], "b": "\u0000"}', {"\ufffd": [{"a": "x\ufffdy"}], "b": "\ufffd"}),
        (rb'"\ud800"', "\ufffd"),
    ],
)
def test_texts_can_be_stored(text: str | bytes, value: object) -> None:
    """Whole pairs of surrogates are characters; halves of them, and NUL, are replaced at any depth."""
    assert foreign_json(text) == value


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', b'"\xed\xa0\x80"', b"\xff", ""])
def test_no_json(text: str | bytes) -> None:
    """Numbers that are none, and bytes that are no UTF-8, are rejected."""
    with pytest.raises(ValueError, match=r"not a number|utf-8|Expecting"):
        foreign_json(text)


@pytest.mark.parametrize("text", ["", "abc", "a\u00e9\U0001f600"])
def test_other_texts_stay(text: str) -> None:
    """Nothing else changes."""
    assert storable(text) is text or storable(text) == text
