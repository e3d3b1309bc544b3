"""The budget of a day: when it is spent, that is said once, and openings are held back until the next day."""

from conf.schema import Budget
from daemon.scheduler.budget import BudgetWatch
from environment.model.messages.vm_accounts import Charge
from environment.model.vms.job_registry import Changes

#: Midnight (UTC) before 2026-11-22.
MIDNIGHT = 1795305600.0


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = MIDNIGHT + 100.0

    def __call__(self) -> float:
        """The time."""
        return self.at


def charge(dollars: float, day: str = "2026-11-22") -> Charge:
    """Of any VM."""
    return Charge(day, "vm-1", "", "m1.large", "", "", "", "ff", "idle", dollars)


def test_what_was_spent_before_counts_and_midnight_lifts_it() -> None:
    """Half of it was spent under another daemon."""
    now = Time()
    watch = BudgetWatch(Budget(per_day=1.0, hold=True), {"2026-11-22": 0.5}.__getitem__, now)
    watch.begin()
    assert watch.look() == []
    watch.observe(
        Changes(
            (),
            (),
            charges=(
                charge(0.5),
                charge(9.0)._replace(kind="difference"),
                charge(9.0, "2026-11-21"),
            ),
        )
    )
    assert (watch.look(), watch.trouble) == ([], "")
    watch.observe(Changes((), (), charges=(charge(0.25),)))
    (held,) = watch.look()
    said = "the budget of 2026-11-22 (UTC), $1.00, is spent; no VM is opened until 2026-11-23 00:00 UTC"
    assert (held.at, held.why, watch.trouble) == (now.at, f"is not opened: {said}", said)
    assert watch.look() == []
    now.at = MIDNIGHT + 86_400.0
    (lifted,) = watch.look()
    assert (lifted.why, watch.trouble) == ("", "")
    status = watch.status()
    assert status is not None
    assert (status.day, status.spent) == ("2026-11-23", 0.0)


def test_without_hold_it_is_only_said() -> None:
    """And without a budget nothing is."""
    watch = BudgetWatch(Budget(per_day=1.0), lambda _: 2.0, Time())
    watch.begin()
    assert watch.look() == []
    assert watch.trouble == "the budget of 2026-11-22 (UTC), $1.00, is spent"
    nobody = BudgetWatch(None, lambda _: 2.0, Time())
    nobody.begin()
    assert (nobody.look(), nobody.trouble, nobody.status()) == ([], "", None)


def test_it_is_told_once_whoever_leads() -> None:
    """The budget event is reported once, and the stored fact shows the next daemon that it was."""
    now, facts = Time(), dict[str, str]()
    for hold, told in ((True, ["budget spent", "openings held"]), (False, ["openings resumed"]), (False, [])):
        watch = BudgetWatch(Budget(per_day=1.0, hold=hold), lambda _: 2.0, now, facts.get)
        watch.begin()
        watch.look()
        news, known = watch.take_news()
        facts |= known
        assert ([each.kind for each in news], watch.take_news()) == (told, ([], {}))
    now.at += 86_400.0
    watch.look()
    assert watch.take_news() == ([], {})
    watch.observe(Changes((), (), charges=(charge(2.0, "2026-11-23"),)))
    watch.look()
    (again,), known = watch.take_news()
    assert (again.kind, again.text) == ("budget spent", "the budget of 2026-11-23 (UTC), $1.00, is spent")
    assert known == {"budget": "2026-11-23"}
