"""Promotions: plays of recorded jobs, the switch, and the watch with a clock of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from conf.schema import Config, PolicyChoice
from daemon.core.errors import RejectedError
from daemon.policy.active_policies import PolicySwitch
from daemon.policy.promotion import DAY
from daemon.store.job_store import Store
from daemon.what_if.cases import Present
from daemon.what_if.promotions import PromotionAnswer, Promotions
from daemon.what_if.recorded_jobs import RecordedJobs
from daemon.what_if.what_if import PolicyAhead, WhatIfService
from environment.model.messages.records import JobRecord
from environment.model.vms.job_registry import Changes
from environment.types import EndedJob
from tests.builders import make_job, make_view, make_vms

HOUR = 3600.0
FF, GREEDY = PolicyChoice(name="ff"), PolicyChoice(name="greedy:beta=0.5")
ENDED = Changes((), (), ended=(EndedJob(make_job("job-1"), (), (), 0.0, 1.0, finished=True),))


class Costs(WhatIfService):
    """Plays nothing: every job costs a dollar, under greedy by a share more or less."""

    def __init__(self) -> None:
        #: Shares of the last plays under greedy, and from which time on jobs were played.
        self.more, self.trouble, self.since = -0.05, "", list[float]()

    def ask(  # type: ignore[override]
        self,
        policies: Sequence[tuple[str, Mapping[str, Any]]],
        *,
        draws: int,
        past: RecordedJobs,
        varied: bool,
        **_: Any,
    ) -> tuple[Present, list[PolicyAhead]]:
        """As much as the test says, with some noise."""
        assert varied
        self.since.append(past.since)
        if self.trouble:
            raise RejectedError(503, "Not now", self.trouble)
        found = []
        for name, options in policies:
            more = self.more if name == "greedy" else 0.0
            costs = {
                draw: ((10.0 + draw) * (1.0 + more * (1.0 + 0.1 * (-1) ** draw)), 60.0)
                for draw in range(draws)
            }
            found.append(PolicyAhead(name, options, draws, drawn=costs))
        return Present(make_view(make_vms(2)), ()), found


class Hall:
    """A daemon's switch and promotions, its clock, and its recorded jobs."""

    def __init__(self, store: Store) -> None:
        self.store, self.now, self.jobs = store, 1_000_000.0, 30
        self.costs, self.names = Costs(), list[str]()
        self.start(Config())

    def start(self, config: Config) -> None:
        """Begin a daemon's term."""
        self.switch = PolicySwitch(config, self.store, now=lambda: self.now)
        self.promotions = Promotions(self.costs, self.switch, self._page, self.names.append, lambda: self.now)

    def _page(self, limit: int, before: str | None) -> list[JobRecord]:
        """Jobs that ended a moment ago, the newest first."""
        at = self.now - 10.0
        ids = [f"job-{number}" for number in range(self.jobs, 0, -1)]
        jobs = [replace(make_job(job_id), submitted_at=at) for job_id in ids]
        records = [JobRecord(job, "finished", placed_at=at, finished_at=at + 5.0) for job in jobs]
        return records[0 if before is None else ids.index(before) + 1 :][:limit]

    def promote(self, chosen: PolicyChoice = GREEDY, *, dry_run: bool = False) -> PromotionAnswer:
        """Promote a policy by the last week's jobs."""
        week = self.now - 7 * DAY
        return self.promotions.promote(chosen, week, draws=20, seconds=5.0, who="ann", dry_run=dry_run)

    def pass_hours(self, hours: int) -> None:
        """Let jobs end and time pass, with a look a minute."""
        for _ in range(hours * 60):
            self.now += 60.0
            self.promotions.observe(ENDED)
            self.promotions.look()

    @property
    def acting(self) -> str:
        """Name of the acting policy."""
        return self.switch.chosen()[0]

    @property
    def events(self) -> list[str]:
        """Texts of the stored events."""
        return [each.happening.text for each in self.store.events.read(100).found]


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    """With an empty store; ff acts."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    hall = Hall(store)
    yield hall
    hall.switch.close()
    store.close()


def test_a_cheaper_policy_is_promoted_and_watched(hall: Hall) -> None:
    """The loop learns of it, and the history has the difference."""
    assert not hall.promote(dry_run=True).promoted
    assert (hall.acting, hall.events) == ("ff", [])
    answer = hall.promote()
    assert (answer.promoted, answer.why, hall.acting, hall.names) == (True, "", "greedy", ["greedy"])
    assert hall.events == ["greedy:beta=0.5: promoted: -5.0 ± 0.1 %"]
    status = hall.switch.status().promotion
    assert status is not None
    assert (status.promoted, status.earlier, status.at) == ("greedy:beta=0.5", "ff", hall.now)
    with pytest.raises(RejectedError, match="is the acting policy"):
        hall.promote()


def test_nothing_is_switched_for_a_policy_that_is_not_better(hall: Hall) -> None:
    """Nor by few jobs, nor when another policy was set while it was played."""
    hall.costs.more = 0.001
    answer = hall.promote()
    assert (answer.promoted, answer.why, hall.acting) == (False, "not cheaper: +0.1 ± 0.0 %", "ff")
    hall.jobs = 19
    with pytest.raises(RejectedError, match="at least 20 jobs that have ended are needed, found 19"):
        hall.promote()
    hall.jobs, hall.costs.more = 30, -0.05
    plays = hall.costs.ask

    def meanwhile(*given: Any, **asked: Any) -> Any:
        hall.switch.set_policy("rr", {})
        return plays(*given, **asked)

    hall.costs.ask = meanwhile  # type: ignore[method-assign]
    with pytest.raises(RejectedError, match="changed meanwhile"):
        hall.promote()
    assert hall.acting == "rr"


def test_no_jobs_are_asked_for_when_the_policy_cannot_act(hall: Hall) -> None:
    """A misspelt name, or a policy that the operator did not allow, is the first thing that is wrong."""
    hall.jobs = 0
    with pytest.raises(RejectedError, match="greedi"):
        hall.promote(PolicyChoice(name="greedi"))
    with pytest.raises(RejectedError, match="may not be chosen over the API"):
        hall.promote(PolicyChoice(name="antigravity:fly"))


def test_a_promoted_policy_that_is_worse_for_a_day_is_taken_back(hall: Hall) -> None:
    """Not sooner; the plays are of the time since the promotion."""
    hall.promote()
    began, hall.costs.more = hall.now, 0.031
    with structlog.testing.capture_logs() as logged:
        hall.pass_hours(23)
        assert hall.acting == "greedy"
        status = hall.switch.status().promotion
        assert status is not None
        assert status.seen == "+3.1 ± 0.1 % so far"
        hall.pass_hours(2)
    assert hall.costs.since[1:24] == [began] * 23
    assert (hall.acting, hall.names) == ("ff", ["greedy", "ff"])
    assert hall.events[-1] == "ff: policy taken back: +3.1 ± 0.1 % over the last day"
    assert [line["event"] for line in logged if line["log_level"] == "warning"] == [
        "policy taken back: +3.1 ± 0.1 % over the last day"
    ]
    status = hall.switch.status().promotion
    assert status is not None
    assert (status.taken_back, status.seen) == (True, "+3.1 ± 0.1 % over the last day")
    plays = len(hall.costs.since)
    hall.pass_hours(30)
    assert len(hall.costs.since) == plays, "nothing is watched any more"


def test_a_promoted_policy_is_judged_again_a_day_after_a_verdict(hall: Hall) -> None:
    """One that becomes worse stays until the next verdict."""
    hall.promote()
    hall.pass_hours(25)
    hall.costs.more = 0.05
    hall.pass_hours(20)
    assert hall.acting == "greedy"
    hall.pass_hours(5)
    assert hall.acting == "ff"
    assert hall.costs.since[-1] == pytest.approx(hall.now - DAY, abs=5 * HOUR)


def test_a_restart_goes_on_with_the_watch(hall: Hall) -> None:
    """It begins with no verdict of its own, and forgets nothing."""
    hall.promote()
    hall.costs.more = 0.05
    hall.pass_hours(20)
    hall.switch.close()
    hall.start(Config())
    assert hall.acting == "greedy"
    hall.pass_hours(3)
    assert hall.acting == "greedy"
    hall.pass_hours(2)
    assert hall.acting == "ff"
    hall.switch.close()
    hall.start(Config())
    status = hall.switch.status().promotion
    assert status is not None
    assert (hall.acting, status.taken_back) == ("ff", True)


@pytest.mark.parametrize(
    "ends",
    [
        lambda hall: hall.switch.set_policy("greedy", {"beta": 0.5}),
        lambda hall: (hall.switch.close(), hall.start(Config(policy=PolicyChoice(name="rr")))),
    ],
    ids=["policy set", "config change"],
)
def test_the_watch_ends_with_another_choice(hall: Hall, ends: Callable[[Hall], object]) -> None:
    """Set by an operator, a policy stays, be it the same one."""
    hall.promote()
    ends(hall)
    hall.costs.more, acting, plays = 0.05, hall.acting, len(hall.costs.since)
    hall.pass_hours(30)
    assert (hall.acting, len(hall.costs.since)) == (acting, plays)
    assert hall.switch.status().promotion is None


def test_a_play_that_fails_is_told_once_and_tried_again(hall: Hall) -> None:
    """It delays the verdict."""
    hall.promote()
    hall.costs.more, hall.costs.trouble = 0.05, "other requests are being answered"
    with structlog.testing.capture_logs() as logged:
        hall.pass_hours(30)
    assert len(hall.costs.since) == 31
    assert [line["why"] for line in logged if "compared" in line["event"]] == [
        "Not now: other requests are being answered"
    ]
    assert hall.acting == "greedy"
    hall.costs.trouble = ""
    hall.pass_hours(2)
    assert hall.acting == "ff"


def test_nothing_is_played_while_no_job_ends_and_nothing_judged_by_few(hall: Hall) -> None:
    """A night without jobs says nothing of a policy."""
    hall.promote()
    hall.costs.more, hall.jobs = 0.05, 3
    hall.pass_hours(30)
    status = hall.switch.status().promotion
    assert status is not None
    assert (hall.acting, status.seen, len(hall.costs.since)) == ("greedy", "too few jobs have ended: 3", 1)
    hall.jobs, hall.costs.more = 30, -0.05
    for _ in range(100):
        hall.now += HOUR
        hall.promotions.look()
    assert (hall.acting, len(hall.costs.since)) == ("greedy", 2), "once, for the jobs that had ended"
