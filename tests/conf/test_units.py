"""Amounts of memory as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.units import memory_mib


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        (512, 512),
        (1.5, 2),
        ("512", 512),
        ("512m", 512),
        ("512M", 512),
        ("2g", 2048),
        ("2GiB", 2048),
        ("1.5 gb", 1536),
        (" 1t ", 1024 * 1024),
        ("2048k", 2),
        ("2147483647", 2**31 - 1),
    ],
)
def test_amounts(text: object, mib: int) -> None:
    """Numbers are MiB; letters are powers of 1024, whatever their case."""
    assert memory_mib(text) == mib


@pytest.mark.parametrize(
    "wrong",
    [0, -1, 0.4, "", "g", "-1g", "1x", "1e3", "1 1", "512k", "2147483648", 2**31, 10**400, "9" * 400, True,
     None, [1], float("nan"), float("inf"), float("-inf")],
)  # fmt: skip
def test_what_is_no_amount(wrong: object) -> None:
    """Anything else is refused with an example of what is right."""
    with pytest.raises(ValueError, match="512m or 2g"):
        memory_mib(wrong)


@given(st.text() | st.integers() | st.floats())
def test_an_amount_or_a_clear_error(value: object) -> None:
    """Whatever comes in, a number of MiB in range comes out, or ValueError."""
    try:
        mib = memory_mib(value)
    except ValueError:
        return
    assert isinstance(mib, int)
    assert 1 <= mib <= 2**31
