"""Times in reasons: any number has a text, since the loop formats those of users, masters and providers."""

import math

import pytest

from environment.number_format import clock


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0.0, "0 s"),
        (1_795_222_368.0, "2026-11-21 00:52:48 UTC"),
        (253_402_300_799.0, "9999-12-31 23:59:59 UTC"),
        (253_402_343_999.0, "2.53402e+11 s"),
        (1e300, "1e+300 s"),
        (-1e300, "-1e+300 s"),
        (math.inf, "inf s"),
        (math.nan, "nan s"),
    ],
)
def test_any_number_has_a_text(at: float, text: str) -> None:
    """A number that is no time is shown as a number."""
    assert clock(at) == text
