"""Forecasts of the queue: requested through a daemon's loop, simulated in separate processes."""

import contextlib
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agents.registry import create
from conf.schema import Cluster, PolicyChoice
from daemon.auth.permits import Permit
from daemon.core.errors import RejectedError
from daemon.core.identity import Person
from daemon.http.routes.jobs.what_if import _check_bounds, _past
from daemon.schemas.what_if import WhatIf, ahead_body
from daemon.store.job_store import Store
from daemon.what_if.cases import Case, Present
from daemon.what_if.fair_queue import FairQueue
from daemon.what_if.recorded_jobs import Page, RecordedJobs, recorded
from daemon.what_if.what_if import WhatIfService
from environment.decisions.sizing import Sizes
from environment.model.messages.records import JobRecord
from environment.pools import NO_MOVES, Consolidation, IdleTimeout
from environment.types import Decision, PlacementRequest
from environment.view import ClusterView, RunningJob
from tests.builders import make_job, make_view, make_vms
from tests.environment.model.vms.test_vm_moves import with_room
from tests.waiting import until

JOB = make_job("job-1", 8, 1.0, 1024, expected_duration=100.0)


class Loop(WhatIfService):
    """As a loop with two VMs and these jobs would show them."""

    present = Present(make_view(make_vms(2)), ())

    def _present(self) -> Present:
        return self.present


@pytest.fixture(scope="module")
def processes() -> Iterator[Loop]:
    """One for all tests here: its processes take longer to start than to answer."""

    def check(name: str) -> None:
        if name == "theirs:Policy":
            raise RejectedError(403, "This policy is not allowed", name)

    loop = Loop(Sizes(), check)
    yield loop
    loop.close()


@pytest.fixture
def loop(processes: Loop) -> Iterator[Loop]:
    """One without jobs."""
    yield processes
    processes.present = Loop.present


def waiting(loop: Loop, *, spread: float = 0.1, jobs: int = 3) -> None:
    """So many jobs wait, each of which needs all that there is."""
    queue = (replace(JOB, id=f"job-{number}", spread=spread) for number in range(1, jobs + 1))
    loop.present = Present(loop.present.view, tuple(PlacementRequest(job, job.executors) for job in queue))


def test_intervals_hold_what_is_believed(loop: Loop) -> None:
    """One after the other they take a hundred seconds each; the later, the wider the interval."""
    waiting(loop)
    _, (found,) = loop.ask([("ff", {})], draws=40, seconds=60.0)
    assert (found.draws, found.failure, list(found.jobs)) == (40, "", ["job-1", "job-2", "job-3"])
    first, _, third = found.jobs.values()
    assert (first.start.low, first.start.high) == (0.0, 0.0)
    assert first.end.low < 100.0 < first.end.high
    assert third.start.mean == pytest.approx(200.0, rel=0.1)
    assert third.end.high - third.end.low > first.end.high - first.end.low
    assert found.dollars is not None
    assert found.dollars.mean == pytest.approx(sum(job.cost.mean for job in found.jobs.values()))


def test_policies_have_the_same_draws_and_more_vms_help(loop: Loop) -> None:
    """Policies have the same draws, so they differ only in their decisions; more VMs help."""
    waiting(loop)
    _, (ff, also) = loop.ask([("ff", {}), ("ff", {"overtake": "easy"})], draws=5, seconds=60.0)
    assert ff.jobs == also.jobs
    kind = loop.present.view.vms[0].type
    _, (more,) = loop.ask([("ff", {})], draws=5, seconds=60.0, cases=[Case(add={kind: 4})])
    assert more.jobs["job-3"].start.mean == 0.0
    with pytest.raises(RejectedError, match="no VM is of type z9"):
        loop.ask([("ff", {})], draws=5, seconds=60.0, cases=[Case(add={"z9": 1})])


def test_added_vms_cost_as_the_dearest_of_their_type(loop: Loop) -> None:
    """VMs of one type may differ in price, in any order; the assumptions tell."""
    case, (first, *rest) = Case(add={loop.present.view.vms[0].type: 1}), loop.present.view.vms
    assert case.assumes(loop.present) == ("added VMs are available at once",)
    dear = replace(first, price_per_hour=9.0)
    now = replace(loop.present, view=replace(loop.present.view, vms=(dear, *rest)))
    assert case.of(now).view.vms[-1].price_per_hour == 9.0
    assert case.assumes(now)[1:] == ("added VMs cost as the dearest of their type",)


def test_cases_stand_beside_what_is_now(loop: Loop) -> None:
    """Another order, another cluster and fewer VMs are simulated, each with its assumptions."""
    kind = loop.present.view.vms[0].type
    short = replace(JOB, id="job-2", expected_duration=10.0)
    loop.present = replace(loop.present, queue=tuple(PlacementRequest(job, 8) for job in (JOB, short)))
    asked = WhatIf.model_validate(
        {
            "cases": [
                {},
                {"order": ["shortest"]},
                {
                    "cluster": {
                        "vms": [{"type": kind, "count": 4, "cpus": 4, "memory": "16g", "price_per_hour": 1}]
                    }
                },
                {"remove": {kind: 1}},
            ]
        }
    )
    cases = [each.case for each in asked.cases]
    present, found = loop.ask([("ff", {})], draws=1, seconds=60.0, cases=cases)
    now, shortest, other, fewer = found
    assert [str(each.case) for each in found] == [
        "as now", "in order of shortest", "on 4 other VMs", f"-1 {kind}"
    ]  # fmt: skip
    assert (
        now.jobs["job-2"].start.mean
        > 0.0
        == shortest.jobs["job-2"].start.mean
        < shortest.jobs["job-1"].start.mean
    )
    assert {job.start.mean for job in other.jobs.values()} == {0.0}
    assert {*fewer.never} == {"job-1", "job-2"}
    body = ahead_body(present, found, Permit())
    assert any("another cluster starts empty" in said for said in body.assumes)
    running = RunningJob(JOB, (loop.present.view.vms[0].id,) * 4, 0.0, None)
    held = np.array([4, 0])
    loop.present = replace(loop.present, view=replace(loop.present.view, executors=held, running=(running,)))
    with pytest.raises(RejectedError, match=f"of {kind}, 1 VM idle now, 2 cannot"):
        loop.ask([("ff", {})], draws=1, seconds=1.0, cases=[Case(remove={kind: 2})])


def test_another_cluster_names_no_files() -> None:
    """A cluster may name no file, as a client could make the daemon read any file."""
    pool = {"name": "p", "type": "t", "cpus": 1, "memory": "1g", "max": 1, "boot": 1, "price_per_hour": 1}
    spot = pool | {"spot": {"history": "/etc/passwd", "interruptions_per_hour": 0.1}}
    case = WhatIf.model_validate({"cases": [{"cluster": {"pools": [spot]}}]}).cases[0].case
    with pytest.raises(RejectedError, match="files"):
        case.of(Loop.present)


def test_deadlines_that_would_be_missed_and_jobs_that_would_never_run(loop: Loop) -> None:
    """They are told apart."""
    late, big = replace(JOB, deadline=150.0, id="job-2"), replace(JOB, id="job-3", executors=99)
    queue = tuple(PlacementRequest(job, job.executors) for job in (JOB, late, big))
    loop.present = Present(loop.present.view, queue)
    _, (found,) = loop.ask([("ff", {})], draws=9, seconds=60.0)
    assert found.late == ("job-2",)
    assert "room for 8" in found.never["job-3"]


def test_time_is_kept_by_whatever_a_policy_does(loop: Loop) -> None:
    """A draw that is not finished is broken off; the process goes on, and is asked again."""
    waiting(loop, jobs=30)
    _, (found,) = loop.ask([("ff", {})], draws=1000, seconds=0.3)
    assert found.draws < 1000
    endless: tuple[str, dict[str, object]] = ("tests.daemon.what_if.test_what_if:Endless", {})
    processes = [worker._running[0].pid for worker in loop._users.workers]
    _, (fine, broken_off) = loop.ask([("ff", {}), endless], draws=1, seconds=2.0)
    assert (fine.draws, fine.failure) == (1, "")
    assert (broken_off.draws, broken_off.failure) == (0, "no draw was finished within 2 s")
    assert loop.ask([("ff", {})], draws=2, seconds=60.0)[1][0].draws == 2
    assert [worker._running[0].pid for worker in loop._users.workers] == processes


def test_the_daemons_own_first_draw_is_finished(loop: Loop) -> None:
    """However little time there is: without it nobody would have an estimate."""
    waiting(loop)
    assert loop.ask([("ff", {})], draws=1000, seconds=1e-9, own=True)[1][0].draws == 1


class Endless:
    """A policy that never decides, for any input."""

    def decide(self, *_: object) -> None:
        """Go on for ever."""
        with contextlib.suppress(BaseException):
            while True:
                pass
        while True:
            pass


def test_a_policy_that_cannot_be_had_is_refused_and_one_that_fails_says_so(loop: Loop) -> None:
    """Others are played all the same."""
    waiting(loop)
    with pytest.raises(RejectedError, match="nosuch"):
        loop.ask([("nosuch", {})], draws=1, seconds=1.0)
    with pytest.raises(RejectedError, match="theirs"):
        loop.ask([("theirs:Policy", {})], draws=1, seconds=1.0)
    broken: tuple[str, dict[str, object]] = ("tests.daemon.what_if.test_what_if:Broken", {})
    _, (failed, fine) = loop.ask([broken, ("ff", {})], draws=3, seconds=60.0)
    assert "ZeroDivisionError" in failed.failure or "waits although" in failed.failure
    assert fine.draws == 3


class Broken:
    """A policy that fails."""

    def decide(self, *_: object) -> None:
        """Fail."""
        raise ZeroDivisionError


class Sometimes:
    """A policy that fails while something runs, and else is first fit."""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Fail, or place."""
        if view.running:
            raise ZeroDivisionError
        return create("ff").decide(view, queue)


def test_a_policy_that_fails_now_and_then_is_told(loop: Loop) -> None:
    """Its numbers are not its own: the share of decisions that it failed to take stands beside them."""
    waiting(loop, jobs=12)
    sometimes: tuple[str, dict[str, object]] = ("tests.daemon.what_if.test_what_if:Sometimes", {})
    _, (found, fine) = loop.ask([sometimes, ("ff", {})], draws=2, seconds=60.0)
    assert 0.0 < found.fallback_share < 0.9
    assert fine.fallback_share == 0.0


def test_a_process_that_is_ended_is_started_again(loop: Loop) -> None:
    """A killed process leaves its question unanswered, and the next question is answered."""
    waiting(loop)
    assert loop.ask([("ff", {})], draws=2, seconds=60.0)[1][0].draws == 2
    for worker in loop._users.workers:
        os.kill(worker._running[0].pid, signal.SIGKILL)
    until(lambda: all(worker._running[0].poll() is not None for worker in loop._users.workers))
    assert loop.ask([("ff", {})], draws=2, seconds=60.0)[1][0].draws == 2


def test_the_daemons_own_question_waits_for_no_users(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one of a user's is being answered; another user waits for that, and is sent away then."""
    monkeypatch.setattr("daemon.what_if.what_if._TURN", 0.05)
    waiting(loop)
    with loop._users.turns.turn("ann", 1.0):
        assert loop.ask([("ff", {})], draws=2, seconds=60.0, own=True)[1][0].draws == 2
        with pytest.raises(RejectedError, match="other requests are being answered"):
            loop.ask([("ff", {})], draws=2, seconds=60.0, who="bob")


def test_nobody_keeps_others_from_their_turn() -> None:
    """The user answered longest ago is next, and each user has at most two questions in line."""
    turns, order, threads = FairQueue(), list[str](), list[threading.Thread]()

    def ask(who: str) -> None:
        with turns.turn(who, 60.0):
            order.append(who)

    with turns.turn("ann", 1.0):
        for number, who in enumerate(("ann", "bob"), 2):
            threads.append(threading.Thread(target=ask, args=(who,)))
            threads[-1].start()
            while len(turns._line) < number:
                threading.Event().wait(0.001)
        with pytest.raises(RejectedError, match="2 of your requests"), turns.turn("ann", 1.0):
            pass
        with pytest.raises(RejectedError, match="other requests"), turns.turn("cid", 0.01):
            pass
    for thread in threads:
        thread.join()
    assert order == ["bob", "ann"]


def test_the_line_is_not_longer_than_threads_can_bear() -> None:
    """Each of those that wait holds one of the API's."""
    turns = FairQueue(most=1)
    with (
        turns.turn("ann", 1.0),
        pytest.raises(RejectedError, match="1 requests are already waiting"),
        turns.turn("bob", 1.0),
    ):
        pass


def test_a_question_is_of_a_size(loop: Loop) -> None:
    """VMs are made in the daemon, and each case is played under each policy."""
    kind = loop.present.view.vms[0].type
    group = {"type": kind, "count": 3_000, "cpus": 1, "memory": "1g", "price_per_hour": 1}
    asked = WhatIf.model_validate(
        {"cases": [{"cluster": {"vms": [group]}}, {"add": {kind: 7_000}}, {"add": {kind: 1}}]}
    )
    with pytest.raises(RejectedError, match=r"at most 10000 VMs in all, .*, found 10001"):
        loop.ask([("ff", {})], draws=1, seconds=1.0, cases=[case.case for case in asked.cases])
    with pytest.raises(RejectedError, match="cases times policies: at most 64 are simulated, found 65"):
        loop.ask([("ff", {})] * 13, draws=1, seconds=1.0, cases=[Case()] * 5)


def test_another_cluster_is_not_carried_by_this_machine(loop: Loop) -> None:
    """The machine's own limit of JVMs does not apply to another cluster, and a note says so."""
    kind = loop.present.view.vms[0].type
    waiting(loop)
    loop.present = replace(loop.present, jvms=9)
    group = {"type": kind, "count": 6, "cpus": 4, "memory": "16g", "price_per_hour": 1}
    other = WhatIf.model_validate({"cases": [{}, {"cluster": {"vms": [group]}}]})
    cases = [case.case for case in other.cases]
    present, (now, there) = loop.ask([("ff", {})], draws=1, seconds=60.0, cases=cases)
    assert now.jobs["job-3"].start.mean > 0.0 == there.jobs["job-3"].start.mean
    said = [" ".join(ahead_body(present, [each], Permit()).assumes) for each in (now, there)]
    assert ["mesos.jvms, 9, is of this one" in each for each in said] == [False, True]


def test_executors_move_as_in_the_daemon(loop: Loop) -> None:
    """One of two VMs is emptied, as the executors of both need one for an hour."""
    view, dollars = with_room().model.view(), []
    for moves in (NO_MOVES, Consolidation("fitting")):
        loop.present = Present(view, (), keeping=IdleTimeout("none"), moves=moves)
        _, (found,) = loop.ask([("ff", {})], draws=1, seconds=60.0)
        assert found.dollars is not None
        dollars.append(found.dollars.mean)
    assert dollars[1] < 0.6 * dollars[0]


def test_without_a_loop_nobody_waits_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it is not to be had now."""
    monkeypatch.setattr("daemon.what_if.what_if._SHOWN", 0.05)
    foresight = WhatIfService(Sizes(), lambda _: None)
    with pytest.raises(RejectedError, match="does not schedule now"):
        foresight.ask([("ff", {})], draws=1, seconds=1.0)
    foresight.close()


@pytest.mark.parametrize(
    "asked",
    [WhatIf(policies=[PolicyChoice(name="reinforce", model="/root")]), WhatIf(seconds=60.0)],
)
def test_who_is_no_operator_asks_within_bounds(asked: WhatIf) -> None:
    """An option may name any folder of the host, and a long question keeps others waiting."""
    with pytest.raises(RejectedError):
        _check_bounds(asked)
    _check_bounds(WhatIf(policies=[PolicyChoice(name="ff")], draws=1000))


def test_who_is_not_closed_leaves_no_process() -> None:
    """A service never closed leaves no process, as in an API without a daemon."""
    left = Loop(Sizes(), lambda name: None)
    waiting(left)
    assert left.ask([("ff", {})], draws=1, seconds=60.0)[1][0].draws == 1
    (pid,) = (process.pid for worker in left._users.workers for process in worker._running)
    assert Path(f"/proc/{pid}").exists()
    del left
    gc.collect()
    assert not Path(f"/proc/{pid}").exists()


def came(number: int, at: float, **known: object) -> JobRecord:
    """A job that came then, needs all that there is, and is believed to take a hundred seconds."""
    job = replace(JOB, id=f"job-{number}", submitted_at=at, name=f"job {number}")
    return JobRecord(job, **{"state": "finished", **known})  # type: ignore[arg-type]


def pages(records: Sequence[JobRecord]) -> Page:
    """As a store gives them, the newest first, in pages."""

    def page(limit: int, before: str | None) -> list[JobRecord]:
        ids = [record.job.id for record in records]
        end = len(ids) if before is None else ids.index(before)
        return [*reversed(records[:end])][:limit]

    return page


def test_a_time_that_is_over_is_played_with_what_jobs_took(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A past period is replayed with real durations, from its first arrival on.

    Earlier jobs and those that never ran are left out. Policies know beliefs alone.
    """
    monkeypatch.setattr("daemon.what_if.recorded_jobs._PAGE", 2)
    records = [
        came(1, 900.0, placed_at=900.0, started_at=900.0, finished_at=2000.0),
        came(2, 1000.0, placed_at=1500.0, started_at=1510.0, finished_at=1560.0),
        came(3, 1005.0, state="killed", finished_at=1006.0),
        came(4, 1007.0, released_at=1010.0, placed_at=1600.0, finished_at=1670.0, state="failed"),
        came(5, 1020.0, state="queued"),
    ]
    past = recorded(pages(records), 1000.0)
    assert (past.took, past.left_out) == ({"job-2": 50.0, "job-4": 70.0}, 1)
    present, (found,) = loop.ask([("ff", {})], draws=20, seconds=60.0, past=past)
    assert (found.draws, found.failure) == (1, "")
    times = {job_id: (job.start.mean, job.end.mean) for job_id, job in found.jobs.items()}
    assert times == {"job-2": (0.0, 50.0), "job-4": (50.0, 120.0), "job-5": (120.0, 220.0)}
    assert found.completion is not None
    assert found.completion.mean == pytest.approx((50.0 + 110.0 + 200.0) / 3)
    body = ahead_body(present, [found], Permit())
    assert (body.at, body.recorded, body.waiting) == (1000.0, True, 3)
    assert any("ended jobs (2 of 3) have their true duration" in said for said in body.assumes)
    believed = {request.job.expected_duration for request in present.queue}
    assert believed == {100.0}
    other = Case(cluster=Cluster.model_construct())
    assert other.assumes(replace(present, recorded=None))
    assert other.assumes(present) == (), "what waits now is not played at all"


def test_a_time_that_is_over_is_drawn_around_what_jobs_took(loop: Loop) -> None:
    """Policies have the same draws of it, so their costs may be paired; the mean is that of the record."""
    records = [
        came(1, 1000.0, placed_at=1000.0, started_at=1000.0, finished_at=1050.0),
        came(2, 1005.0, placed_at=1050.0, started_at=1050.0, finished_at=1120.0),
    ]
    past = recorded(pages(records), 1000.0)
    _, (ff, rr) = loop.ask([("ff", {}), ("rr", {})], draws=40, seconds=60.0, past=past, varied=True)
    assert (ff.draws, sorted(ff.drawn), ff.drawn) == (40, [*range(40)], rr.drawn)
    ends = [completion for _, completion in ff.drawn.values()]
    assert min(ends) < max(ends)
    assert sum(ends) / 40 == pytest.approx((50.0 + 115.0) / 2, rel=0.03)
    _, (once,) = loop.ask([("ff", {})], draws=40, seconds=60.0, past=past)
    assert (once.draws, once.drawn) == (1, {})


def test_who_sees_own_jobs_alone_asks_of_no_time_that_is_over(tmp_path: Path) -> None:
    """A user with own jobs only may not replay a past period, as its cost reveals others' jobs."""
    store = Store(f"sqlite:///{tmp_path}/stoker.db")
    with pytest.raises(RejectedError, match="you see only your own"):
        _past(0.0, Permit(Person("ann", "submit"), sees_all=False), store)
    read = _past(0.0, Permit(Person("ann", "operate"), sees_all=False), store)  # in turn, by its caller
    with pytest.raises(RejectedError, match="no job that was submitted since then"):
        read()
    store.close()


def test_a_time_that_is_over_is_read_in_turn(loop: Loop) -> None:
    """A user's many questions would else read thousands of jobs each at once, and take all threads."""
    read, more = threading.Event(), threading.Event()

    def slow() -> RecordedJobs:
        read.set()
        assert more.wait(10)
        return recorded(pages([came(1, 1000.0, state="queued")]), 1000.0)

    def ask(past: Callable[[], RecordedJobs]) -> None:
        with contextlib.suppress(RejectedError):
            loop.ask([("ff", {})], draws=1, seconds=60.0, past=past, who="ann")

    def none() -> RecordedJobs:
        raise AssertionError("it is not its turn")

    first = threading.Thread(target=ask, args=(slow,))
    first.start()
    assert read.wait(10)
    second = threading.Thread(target=ask, args=(slow,))
    second.start()
    until(lambda: len(loop._users.turns._line) == 2)
    with pytest.raises(RejectedError, match="2 of your requests are being answered"):
        loop.ask([("ff", {})], draws=1, seconds=60.0, past=none, who="ann")
    more.set()
    first.join(60)
    second.join(60)


def test_a_time_in_which_nothing_came_or_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is made of it."""
    records = [came(number, 1000.0 + number, state="queued") for number in range(1, 5)]
    with pytest.raises(RejectedError, match="no job that was submitted since then"):
        recorded(pages(records), 2000.0)
    monkeypatch.setattr("daemon.what_if.recorded_jobs._MOST", 3)
    with pytest.raises(RejectedError, match="at most 3 jobs are simulated"):
        recorded(pages(records), 1000.0)
    assert len(recorded(pages(records), 1002.0).jobs) == 3


def test_a_time_in_which_very_many_never_ran_is_refused() -> None:
    """A period with very many jobs that never ran is refused.

    Otherwise repeated requests would read the whole store each time.
    """
    read = 0

    def page(limit: int, _: str | None) -> list[JobRecord]:
        nonlocal read
        read += limit
        assert read <= 100_000
        return [came(7, 1000.0, state="killed", finished_at=1006.0)] * limit

    with pytest.raises(RejectedError, match="too many jobs since then never ran"):
        recorded(page, 0.0)
