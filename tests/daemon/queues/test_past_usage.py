"""Stored usage of queues: the same shares after a restart, within a size limit."""

import pytest

from daemon.queues import past_usage
from environment.queues.shares import JobHolding, Shares, Standings
from environment.queues.types import Queue, Queues, Sharing
from environment.resources import NOTHING, Resources
from tests.daemon.queues.snapshots import WHOLE

QUEUES = Queues((Queue("default"), Queue("a"), Queue("b", 2.0)))
SHARING = Sharing(("fair",), queues=QUEUES, half_life=1600.0)


def had(shares: Shares, at: float) -> Standings:
    """The shares of a time."""
    return shares.standings(WHOLE, at)


def test_shares_are_the_same_after_a_restart() -> None:
    """Ended and running jobs count the same after a restart.

    A job that began since the last save counts from the save.
    """
    shares, goes_on = Shares(SHARING), JobHolding("b", "bob", Resources.of(2.0), 0.0)
    shares.holds("over", JobHolding("a", "ann", Resources.of(4.0), 0.0), 0.0)
    shares.holds("goes on", goes_on, 500.0)
    shares.holds("over", JobHolding("a", "ann", NOTHING, 0.0), 1000.0)
    used = past_usage.taken_up(past_usage.kept(had(shares, 1500.0)), 2000.0)
    again = Shares(SHARING)
    again.resume(used, (), {"goes on": goes_on}, 2000.0)
    for at in (2000.0, 9000.0):
        for scope in (("a", None), ("a", "ann"), ("b", None), ("b", "bob")):
            told, before = (each.vector(each.of(scope)) for each in (had(again, at), had(shares, at)))
            assert told == pytest.approx(before, rel=1e-4)
    assert had(again, 2000.0).share("a") > 0.0

    since = Shares(SHARING)  # what is held only now was not held since the last change before
    since.resume(used, (), {"new": JobHolding("a", "ann", Resources.of(4.0), 0.0)}, 1500.0)
    assert had(since, 1500.0).of(("a", None)).past == pytest.approx(
        had(shares, 1500.0).of(("a", None)).past_at(1500.0, SHARING.half_life), rel=1e-4
    )


def test_no_more_is_kept_than_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users with the least usage are dropped first, queues last, and negligible usage at once."""
    monkeypatch.setattr(past_usage, "_KEPT", 3)
    shares = Shares(SHARING)
    for number, cpus in enumerate((1.0, 3.0, 2.0)):
        shares.holds(f"job-{number}", JobHolding("a", f"user-{number}", Resources.of(cpus), 0.0), 0.0)
    shares.holds("b", JobHolding("b", "", Resources.of(0.5), 0.0), 0.0)
    kept = past_usage.taken_up(past_usage.kept(had(shares, 1600.0)), 1600.0)
    assert [(use.queue, use.user) for use in kept] == [("a", None), ("b", None), ("a", "user-1")]
    for job in ("job-0", "job-1", "job-2", "b"):
        shares.holds(job, JobHolding("a", "", NOTHING, 0.0), 1600.0)
    assert past_usage.kept(had(shares, 1600.0 * 40)) == ""


def test_it_is_kept_now_and_then_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Usage is saved at intervals and at the end.

    It is not saved with every batch, nor again when unchanged, nor before the cluster is known.
    """
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    shares, keeper = Shares(SHARING), past_usage.PastUse()
    shares.holds("job", JobHolding("a", "ann", Resources.of(4.0), 0.0), 0.0)

    def facts(at: float, whole: Resources = WHOLE) -> dict[str, str]:
        clock[0] = at
        return keeper.facts(lambda: shares.standings(whole, at))

    assert facts(59.0) == {}
    assert facts(61.0, NOTHING) == {}
    keeper.come_due()
    assert facts(200.0) != {}
    assert facts(259.0) == {}
    keeper.come_due()
    assert facts(260.0) == {}  # the same as before: shares change by steps
    assert facts(320.0) != {}


def test_what_cannot_be_read_is_forgotten() -> None:
    """The daemon starts all the same."""
    assert past_usage.taken_up('{"of": "another', 0.0) == ()
    assert past_usage.taken_up('[1.0, [["a", null, {"cpus": "many"}]]]', 0.0) == ()
    assert past_usage.taken_up(None, 0.0) == ()
