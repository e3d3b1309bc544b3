"""The budget of a day: when it is spent, that is said once, and openings are held back until the next day."""

import re
from dataclasses import replace
from typing import Any

import pytest

from conf.loader import ConfigError, build
from conf.schema import Budget
from conf.schema.daemon import PoolBudget
from daemon.scheduler.budget import BudgetWatch
from environment.model.messages.vm_accounts import Account, Charge
from environment.model.vms.job_registry import Changes

#: Midnight (UTC) before 2026-11-22.
MIDNIGHT = 1795305600.0
SPENT = "$1.00, is spent ($2.00)"


def two_dollars(_: str) -> list[tuple[str, str, float]]:
    """Dollars of the month that the store knows: two, of today."""
    return [("2026-11-22", "", 2.0)]


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
    watch = BudgetWatch(Budget(per_day=1.0, hold=True), lambda _: [("2026-11-22", "", 0.5)], now)
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
    spent = "the budget of 2026-11-22 (UTC), $1.00, is spent ($1.25)"
    said = f"{spent}; no VM is opened until 2026-11-23 00:00 UTC"
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
    watch = BudgetWatch(Budget(per_day=1.0), two_dollars, Time())
    watch.begin()
    assert watch.look() == []
    assert watch.trouble == "the budget of 2026-11-22 (UTC), $1.00, is spent ($2.00)"
    nobody = BudgetWatch(None, two_dollars, Time())
    nobody.begin()
    assert (nobody.look(), nobody.trouble, nobody.status()) == ([], "", None)


def test_it_is_told_once_whoever_leads() -> None:
    """The budget event is reported once, and the stored fact shows the next daemon that it was."""
    now, facts = Time(), dict[str, str]()
    for hold, told in ((True, ["budget spent", "openings held"]), (False, ["openings resumed"]), (False, [])):
        watch = BudgetWatch(Budget(per_day=1.0, hold=hold), two_dollars, now, facts.get)
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
    assert (again.kind, again.text) == ("budget spent", f"the budget of 2026-11-23 (UTC), {SPENT}")
    assert known == {"budget": '{"day": "2026-11-23"}'}


def test_what_an_earlier_version_reported_is_not_repeated() -> None:
    """Its fact has the day alone."""
    watch = BudgetWatch(Budget(per_day=1.0), two_dollars, Time(), {"budget": "2026-11-22"}.get)
    watch.begin()
    assert (watch.look(), watch.take_news()) == ([], ([], {}))


def test_months_and_pools_have_limits_that_hold() -> None:
    """A pool's day is over at midnight, a month's in December; what is held comes with its reason."""
    now = Time()
    pools = {"general": PoolBudget(dollars_per_day=1.0, dollars_per_hour=2.0)}
    earlier = [("2026-11-02", "", 5.0), ("2026-11-22", "general", 0.75)]
    watch = BudgetWatch(Budget(dollars_per_month=7.0, pools=pools), lambda _: earlier, now)
    watch.begin()
    assert watch.look() == []
    watch.observe(Changes((), (), charges=(charge(0.5)._replace(pool="general"), charge(0.5))))
    (held,) = watch.look()
    spent = "the budget of pool general, 2026-11-22 (UTC), $1.00, is spent ($1.25)"
    until = "no VM of it is opened or gets new executors until 2026-11-23 00:00 UTC"
    assert (held.why, held.pools) == ("", (("general", f"is not used: {spent}; {until}"),))
    watch.observe(Changes((), (), charges=(charge(0.5),)))
    (held,) = watch.look()
    why = "is not used: the budget of 2026-11 (UTC), $7.00, is spent ($7.25); "
    why += "no VM is opened or gets new executors until 2026-12-01 00:00 UTC"
    assert dict(held.pools)[""] == why
    assert [each.kind for each in watch.take_news()[0]] == ["budget spent", "openings held"] * 2
    now.at = MIDNIGHT + 86_400.0
    (held,) = watch.look()
    assert dict(held.pools).keys() == {""}
    now.at = MIDNIGHT + 9 * 86_400.0
    (lifted,) = watch.look()
    assert (lifted.why, lifted.pools, watch.trouble) == ("", (), "")
    assert [each.kind for each in watch.take_news()[0]] == ["openings resumed"] * 2


def test_open_vms_are_shown_beside_a_limit_per_hour() -> None:
    """Those of the store, and what changed since."""
    account = Account("general-1.1", "general-1", "m1", 0.25, 0.0, 0.0, pool="general")
    fixed = replace(account, id="vm-1", pool="")
    rules = Budget(dollars_per_hour=2.0, pools={"general": PoolBudget(dollars_per_hour=1.0)})
    watch = BudgetWatch(rules, lambda _: [], Time(), accounts=lambda: [account, fixed])
    watch.begin()
    assert [(each.pool, each.spent, each.over) for each in watch.limits()] == [
        ("", 0.5, False),
        ("general", 0.25, False),
    ]
    watch.observe(Changes((), (), accounts=(replace(account, closed=True),)))
    assert [each.spent for each in watch.limits()] == [0.25, 0.0]
    status = watch.status()
    assert status is not None
    assert (status.per_day, len(status.limits), watch.look()) == (None, 2, [])


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        ({}, "should have a limit, such as dollars_per_day"),
        (
            {"per_day": 1, "dollars_per_day": 2},
            "per_day: is the old name of dollars_per_day; set one of them",
        ),
        ({"pools": {"a": {}}}, "pools.a: should have a limit, such as dollars_per_day"),
        ({"dollars_per_month": -1}, "dollars_per_month: should be greater than 0"),
    ],
)
def test_a_budget_without_sense_is_an_error(budget: dict[str, Any], says: str) -> None:
    """One line, with what is right."""
    with pytest.raises(ConfigError, match=re.escape(says)):
        build(Budget, budget, "budget")


def test_only_the_earlier_name_of_a_limit_does_not_hold() -> None:
    """A month beside it holds, unless nothing is to."""
    for hold, held in ((None, ["month"]), (True, ["day", "month"]), (False, [])):
        watch = BudgetWatch(Budget(per_day=1.0, dollars_per_month=1.0, hold=hold), two_dollars, Time())
        watch.begin()
        assert [each.per for each in watch.limits() if each.hold] == held
