"""Dollars and shares as text."""

from conf.util.dollars import money, percent


def test_amounts_of_every_size_show_something() -> None:
    """Two decimals above a dollar, more below."""
    assert [money(each) for each in (12.345, 0.5, -3, 0, 0.00002, 1e-9)] == [
        "$12.35", "$0.5000", "-$3.00", "$0.0000", "$0.000020", "less than $0.000001",
    ]  # fmt: skip


def test_a_share_that_is_not_known_is_said() -> None:
    """By default as a dash."""
    assert [percent(0.123), percent(0.123, 1), percent(None), percent(None, none="not checked")] == [
        "12 %", "12.3 %", "-", "not checked",
    ]  # fmt: skip
