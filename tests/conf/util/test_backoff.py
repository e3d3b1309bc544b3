"""Pauses between tries."""

from conf.util.backoff import Backoff


def test_pauses_grow_up_to_the_longest() -> None:
    """By the count of failures in a row, or from one pause to the next; the first for none, too."""
    backoff = Backoff(first=1.5, factor=3.0, longest=10.0)
    assert [backoff.after(failures) for failures in range(5)] == [1.5, 1.5, 4.5, 10.0, 10.0]
    assert backoff.after(10**6) == 10.0
    assert [backoff.following(pause) for pause in (1.5, 4.5, 10.0)] == [4.5, 10.0, 10.0]
