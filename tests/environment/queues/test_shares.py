"""Queues' resources and prices, the same in any order of discovery."""

from datetime import datetime
from itertools import permutations

from environment.queues.limits import ShareLimits
from environment.queues.shares import JobHolding, Shares, Spent
from environment.queues.types import Most, Queue, Queues, Sharing
from environment.resources import NOTHING, Resources

_EACH = Resources.of(1.0)
_QUEUES = Queues((Queue("a", most=Most(dollars_per_hour=0.6)), Queue("b")))
_HELD = {
    "one": JobHolding("a", "ann", _EACH, 0.1),
    "two": JobHolding("a", "ann", _EACH, 0.2),
    "three": JobHolding("a", "bob", _EACH, 0.3),
    "four": JobHolding("b", "bob", _EACH, 0.7),
    "over": JobHolding("b", "cyd", _EACH, 1e-3),
}


def test_what_is_known_after_a_restart_is_what_was_known() -> None:
    """Prices too: they add up to the same, and a limit that is met just so is met, and not crossed."""
    assert 0.3 + 0.2 + 0.1 != 0.1 + 0.2 + 0.3, "floats do not"
    limits = ShareLimits(Sharing(order=("fair",), queues=_QUEUES))
    for order in permutations(_HELD):
        before = Shares(Sharing(order=("fair",), queues=_QUEUES))
        for job in order:
            before.holds(job, _HELD[job], 5.0)
        before.holds("over", _HELD["over"]._replace(held=NOTHING), 6.0)
        after = Shares(Sharing(order=("fair",), queues=_QUEUES))
        left = {job: holding for job, holding in _HELD.items() if job != "over"}
        after.resume(before.state(), before.spent(), left, 6.0)
        assert after.state() == before.state()
        for shares in (before, after):
            met = shares.standings(Resources.of(9.0), 6.0)
            assert [met.of((path, None)).per_hour for path in ("a", "b")] == [0.6, 0.7]
            assert limits.over(met, "a", "ann", _EACH, per_hour=1e-6) is not None
            assert limits.rooms(met, "a", "ann")[0].full
            shares.holds("two", _HELD["two"]._replace(held=NOTHING), 7.0)
            room = shares.standings(Resources.of(9.0), 7.0)
            assert limits.over(room, "a", "ann", _EACH, per_hour=0.2) is None


def test_charges_of_days_and_months_are_kept_apart() -> None:
    """A new day begins at nothing and a new month too; a restart in between changes none of it."""
    most = Most(dollars_per_day=3.0, dollars_per_month=4.0)
    sharing = Sharing(queues=Queues((Queue("a", most=most),)), most_per_user=Most(dollars_per_month=9.0))
    shares, limits = Shares(sharing), ShareLimits(sharing)
    for day, spent, why in (
        (
            "2026-11-29",
            3.0,
            "$3 per day at most and has cost $3 today (UTC); it has room again at 2026-11-30",
        ),
        (
            "2026-11-30",
            1.5,
            "$4 per month at most and has cost $4.5 in this month (UTC); it has room again at 2026-12",
        ),
        ("2026-12-01", 1.0, ""),
    ):
        at = datetime.fromisoformat(f"{day}T12:00:00+00:00").timestamp()
        shares.spends("a", "ann", day, spent)
        again = Shares(sharing)
        again.resume(shares.state(), shares.spent(), {}, at)
        for each in (shares, again):
            over = limits.over(each.standings(_EACH, at, day), "a", "ann", _EACH)
            assert (over.why if over else "").startswith(f"queue a may cost {why}" if why else "")
            assert bool(over) == bool(why)
        shares = again
    morning = Shares(sharing)
    morning.resume((), [Spent("2026-11", "a", None, 4.5)], {}, 0.0)  # nothing was charged today
    for _ in range(2):
        over = limits.over(morning.standings(_EACH, 0.0, "2026-11-30"), "a", "bob", _EACH)
        assert over is not None
        morning.spends("a", "ann", "2026-11-30", 0.1)
    shares.spends("b", "ann", "2026-12-02", 8.0)
    over = limits.over(shares.standings(_EACH, 0.0, "2026-12-03"), "c", "ann", _EACH)
    assert over is not None
    assert over.why.startswith(
        "ann over all queues may cost $9 per month at most and has cost $9 in this month"
    )
    assert limits.over(shares.standings(_EACH, 0.0, "2026-12-03"), "c", "bob", _EACH) is None
