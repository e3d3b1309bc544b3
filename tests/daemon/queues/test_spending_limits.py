"""Queues over their spending limit are reported once a day, also after the leader changes."""

import time
from pathlib import Path

from conf.loader import build
from conf.schema import QueueSpec, SharingFile
from conf.util.utc_days import day_of
from daemon.queues.spending_limits import FACT, SpendingLimits
from daemon.store.job_store import Store
from environment.model.cluster_model import Changes
from environment.model.messages.vm_accounts import Charge
from environment.queues.types import Most, queues_of
from environment.resources import Resources
from tests.daemon.queues.snapshots import seen
from tests.daemon.queues.test_in_the_loop import running
from tests.waiting import until

#: 2026-11-22, as `seen` has it.
NOW = 1795305600.0
CORE = Resources.of(1.0, 1024)


def test_what_is_used_up_is_told_once_a_day() -> None:
    """Of queues and users, by day and by hour; by another daemon not again, and the next day anew."""
    tree = {
        "prod": {
            "most": {"dollars_per_day": 4},
            "queues": {"etl": {"most_per_user": {"dollars_per_day": 1}}},
        },
        "dev": {"most": {"dollars_per_hour": 0.52}},
        "test": {"most": {"dollars_per_hour": 0.6, "dollars_per_day": 3}},
    }
    queues = queues_of(build(SharingFile, {"queues": tree}, "queues").queues)
    holds = (
        ("prod.etl", "ann", CORE),
        ("prod.etl", "bob", CORE),
        ("dev", "bob", CORE),
        ("test", "bob", CORE),
    )
    standings, facts, clock = seen(queues, *holds, spent=2.0).standings, dict[str, str](), [NOW]
    for at, told in (
        (NOW, ["dev costs $0.5 an hour, and may cost $0.52",
               "prod has cost $4 today (UTC), and may cost $4 a day",
               *["prod.etl has reached the limit of cost per user"] * 2]),
        (NOW + 60.0, []),
        (NOW + 86_400.0, ["dev", "prod", "prod.etl", "prod.etl"]),
    ):  # fmt: skip
        clock[0] = at
        allowances = SpendingLimits(lambda: clock[0], facts.get)
        allowances.observe(standings)
        allowances.observe(standings)
        news, known = allowances.take_news()
        facts |= known
        said = sorted(each.text.partition("queue ")[2] for each in news)
        assert [text.startswith(start) for text, start in zip(said, told, strict=True)] == [True] * len(told)
        assert {each.kind for each in news} <= {"budget spent"}
        assert allowances.take_news() == ([], {})
    assert "ann" not in " ".join(each.text for each in news)


def test_a_month_and_users_over_all_queues_are_told() -> None:
    """With the time at which there is room again; which user it is, only the log has."""
    queues = queues_of({"a": build(QueueSpec, {"most": {"dollars_per_month": 3}}, "a")})
    holds = (("a", "ann", CORE), ("default", "ann", CORE))
    sight = seen(queues, *holds, spent=3.0, most_per_user=Most(dollars_per_month=6.0))
    allowances = SpendingLimits(lambda: NOW, dict[str, str]().get)
    allowances.observe(sight.standings)
    assert [each.text for each in allowances.take_news()[0]] == [
        "queue a has cost $3 in this month (UTC), and may cost $3 a month; "
        "it has room again at 1970-02-01 00:00 UTC",
        "a user over all queues has reached the limit of cost per user",
    ]
    uses = sight.uses()  # which have no queue of that
    assert (set(uses), uses["a"].dollars_this_month) == ({"a", "default"}, 3.0)


def test_what_cannot_be_read_is_forgotten() -> None:
    """Then it is told once more."""
    queues = queues_of(build(SharingFile, {"queues": {"a": {"most": {"dollars_per_day": 1}}}}, "q").queues)
    allowances = SpendingLimits(lambda: NOW, {FACT: "[1"}.get)
    allowances.observe(seen(queues, ("a", "", CORE), spent=1.0).standings)
    assert len(allowances.take_news()[0]) == 1


def test_a_daemon_tells_of_it_as_an_event(store: Store, tmp_path: Path) -> None:
    """Which webhooks are told; a daemon that is started again does not repeat it."""
    charge = Charge(day_of(time.time()), "vm", "", "m1", "job-1", "ann", "etl", "ff", "used", 2.0)
    store.changes.save(Changes((), (), charges=(charge,)))
    queues = {"etl": {"most": {"dollars_per_day": 1.5}}}

    def told() -> list[str]:
        found = store.events.read(1000).found
        return [each.happening.text for each in found if each.happening.kind == "budget spent"]

    with running(store, tmp_path, queues=queues):
        until(told)
    with running(store, tmp_path, queues=queues) as service:
        until(lambda: service.sight() is not None and service.sight())
        assert [text.partition(";")[0] for text in told()] == [
            "queue etl has cost $2 today (UTC), and may cost $1.5 a day"
        ]
