"""What would come of the queue: asked of a daemon's loop, played in processes of their own."""

import gc
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conf.schema import PolicyChoice
from daemon.contract import RejectedError
from daemon.foresight.cases import Case, Present
from daemon.foresight.foresight import Foresight
from daemon.foresight.routes import _check_bounds
from daemon.foresight.schemas import WhatIf, ahead_body
from daemon.users.permits import Permit
from environment.sizing import Sizes
from environment.types import PlacementRequest
from environment.view import RunningJob
from tests.builders import make_job, make_view, make_vms

JOB = make_job("job-1", 8, 1.0, 1024, expected_duration=100.0)


class Loop(Foresight):
    """As a loop with two VMs and these jobs would show them."""

    present = Present(make_view(make_vms(2)), ())

    def _present(self) -> Present:
        return self.present


@pytest.fixture
def loop() -> Iterator[Loop]:
    """One without jobs."""

    def check(name: str) -> None:
        if name == "theirs:Policy":
            raise RejectedError(403, "This policy is not allowed", name)

    loop = Loop(Sizes(), check)
    yield loop
    loop.close()


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
    """What differs between two is what they do."""
    waiting(loop)
    _, (ff, also) = loop.ask([("ff", {}), ("ff", {"overtake": "easy"})], draws=5, seconds=60.0)
    assert ff.jobs == also.jobs
    kind = loop.present.view.vms[0].type
    _, (more,) = loop.ask([("ff", {})], draws=5, seconds=60.0, cases=[Case(add={kind: 4})])
    assert more.jobs["job-3"].start.mean == 0.0
    with pytest.raises(RejectedError, match="no VM is of type z9"):
        loop.ask([("ff", {})], draws=5, seconds=60.0, cases=[Case(add={"z9": 1})])


def test_cases_stand_beside_what_is_now(loop: Loop) -> None:
    """Another order, another cluster, VMs fewer: each is played, and says what it assumes."""
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
    assert any("nothing runs at first" in said for said in body.assumes)
    running = RunningJob(JOB, (loop.present.view.vms[0].id,) * 4, 0.0, None)
    held = np.array([4, 0])
    loop.present = replace(loop.present, view=replace(loop.present.view, executors=held, running=(running,)))
    with pytest.raises(RejectedError, match=f"of {kind}, 1 VMs are idle now, 2 cannot"):
        loop.ask([("ff", {})], draws=1, seconds=1.0, cases=[Case(remove={kind: 2})])


def test_another_cluster_names_no_files_and_is_of_a_size() -> None:
    """Whoever asks would have the daemon read any file, or make any number of VMs."""
    pool = {"name": "p", "type": "t", "cpus": 1, "memory": "1g", "max": 1, "boot": 1, "price_per_hour": 1}
    spot = pool | {"spot": {"history": "/etc/passwd", "interruptions_per_hour": 0.1}}
    many = {"type": "t", "count": 6_000, "cpus": 1, "memory": "1g", "price_per_hour": 1}
    for cluster, why in (({"pools": [spot]}, "files"), ({"vms": [many, many]}, "at most")):
        case = WhatIf.model_validate({"cases": [{"cluster": cluster}]}).cases[0].case
        with pytest.raises(RejectedError, match=why):
            case.of(Loop.present)


def test_deadlines_that_would_be_missed_and_jobs_that_would_never_run(loop: Loop) -> None:
    """They are told apart."""
    late, big = replace(JOB, deadline=150.0, id="job-2"), replace(JOB, id="job-3", executors=99)
    queue = tuple(PlacementRequest(job, job.executors) for job in (JOB, late, big))
    loop.present = Present(loop.present.view, queue)
    _, (found,) = loop.ask([("ff", {})], draws=9, seconds=60.0)
    assert found.late == ("job-2",)
    assert "room for 8" in found.never["job-3"]


def test_time_is_kept_and_one_draw_is_always_played(loop: Loop) -> None:
    """However little there is of it."""
    waiting(loop, jobs=30)
    _, (found,) = loop.ask([("ff", {})], draws=1000, seconds=0.01)
    assert 1 <= found.draws < 1000


def test_a_policy_that_cannot_be_had_is_refused_and_one_that_fails_says_so(loop: Loop) -> None:
    """Others are played all the same."""
    waiting(loop)
    with pytest.raises(RejectedError, match="nosuch"):
        loop.ask([("nosuch", {})], draws=1, seconds=1.0)
    with pytest.raises(RejectedError, match="theirs"):
        loop.ask([("theirs:Policy", {})], draws=1, seconds=1.0)
    broken: tuple[str, dict[str, object]] = ("tests.daemon.test_foresight:Broken", {})
    _, (failed, fine) = loop.ask([broken, ("ff", {})], draws=3, seconds=60.0)
    assert "ZeroDivisionError" in failed.failure or "waits although" in failed.failure
    assert fine.draws == 3


class Broken:
    """A policy that fails."""

    def decide(self, *_: object) -> None:
        """Fail."""
        raise ZeroDivisionError


def test_a_process_that_is_ended_is_started_again(loop: Loop) -> None:
    """What it was asked is not answered, the next question is."""
    waiting(loop)
    assert loop.ask([("ff", {})], draws=2, seconds=60.0)[1][0].draws == 2
    for worker in loop._users.workers:
        os.kill(worker._running[0].pid, signal.SIGKILL)
    time.sleep(0.1)
    assert loop.ask([("ff", {})], draws=2, seconds=60.0)[1][0].draws == 2


def test_the_daemons_own_question_waits_for_no_users(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one of a user's is being answered; another user waits for that, and is sent away then."""
    monkeypatch.setattr("daemon.foresight.foresight._TURN", 0.05)
    waiting(loop)
    with loop._users.turn:
        assert loop.ask([("ff", {})], draws=2, seconds=60.0, own=True)[1][0].draws == 2
        with pytest.raises(RejectedError, match="another question"):
            loop.ask([("ff", {})], draws=2, seconds=60.0)


def test_without_a_loop_nobody_waits_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it is not to be had now."""
    monkeypatch.setattr("daemon.foresight.foresight._SHOWN", 0.05)
    foresight = Foresight(Sizes(), lambda _: None)
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
    """As whoever makes an API without a daemon around it."""
    left = Loop(Sizes(), lambda name: None)
    waiting(left)
    assert left.ask([("ff", {})], draws=1, seconds=60.0)[1][0].draws == 1
    (pid,) = (process.pid for worker in left._users.workers for process in worker._running)
    assert Path(f"/proc/{pid}").exists()
    del left
    gc.collect()
    assert not Path(f"/proc/{pid}").exists()


def test_no_more_vms_are_added_than_a_cluster_may_have() -> None:
    """In all, whatever their types are; they would be made in the daemon."""
    now = Present(make_view(make_vms(2)), ())
    kind = now.view.vms[0].type
    with pytest.raises(RejectedError, match="add: at most 10000 VMs, found 10001"):
        Case(add={kind: 10_001}).of(now)
