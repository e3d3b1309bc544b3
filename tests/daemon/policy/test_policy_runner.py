"""Rounds in bounded time: the queue when its policy fails, is wrong or does not return."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from conf.schema import PolicyChoice
from daemon.policy.policy_runner import PolicyRunner
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView, RunningJob
from tests.builders import line_of, make_job, make_view, make_vms
from tests.waiting import PATIENCE, until

VIEW = make_view(make_vms(3, cpus=4))
FIRST_FIT = PolicyChoice(name="ff")
Requests = Sequence[PlacementRequest]

#: Stuck policies wait for this, so that no thread outlives its test.
release = threading.Event()
#: How often the stuck policy was asked.
asked: list[str] = []


def raises(view: ClusterView, queue: Requests) -> Decision:
    """Fails."""
    raise ValueError("no weights")


#: The place of its error, as faults name it.
RAISES = f"{__file__}, line {line_of(raises)}"


def leaves(view: ClusterView, queue: Requests) -> Decision:
    """Wants the whole process to end."""
    raise SystemExit(3)


def lies(view: ClusterView, queue: Requests) -> Decision:
    """Places on a VM that is not there."""
    return Place(queue[0].job.id, (99,) * queue[0].count)


def stuck_on_b(view: ClusterView, queue: Requests) -> Decision:
    """Decides well, until it is asked about job b."""
    asked.append(queue[0].job.id)
    if queue[0].job.id == "b":
        release.wait()
    return Place(queue[0].job.id, (2,) * queue[0].count)


def loops(view: ClusterView, queue: Requests) -> Decision:
    """Neither returns nor waits."""
    while not release.is_set():
        pass
    return Wait("too late")


def waits(view: ClusterView, queue: Requests) -> Decision:
    """Never places anything."""
    return Wait("not today")


class Elsewhere(dict[str, tuple[float, ...]]):
    """Details of a decision: they do not return where others than the policy look at them."""

    def items(self) -> Any:
        """Say so, in the thread of the policy alone."""
        if not threading.current_thread().name.startswith("policy"):
            asked.append("elsewhere")
        return super().items()


class Sentence(str):
    """A text likewise."""

    def __len__(self) -> int:
        return len(Elsewhere(x=()).items()) and super().__len__()


class Decides(Place):
    """A decision likewise."""

    def __getattribute__(self, name: str) -> Any:
        Elsewhere().items()
        return super().__getattribute__(name)


def decides_elsewhere(view: ClusterView, queue: Requests) -> Decision:
    """Returns what runs code of its own when it is looked at."""
    details = Elsewhere(x=(1.0,) * len(view.vms))
    return Decides(queue[0].job.id, (0,) * queue[0].count, (Sentence("so"),), details=details)


class Learns:
    """Does not say whether it chooses sizes."""

    decide = staticmethod(stuck_on_b)

    @property
    def chooses_sizes(self) -> bool:
        """Does not return."""
        asked.append("begin")
        release.wait()
        return False


class Guarded:
    """Cannot tell how often its guard decided."""

    decide = staticmethod(stuck_on_b)

    @property
    def guarded(self) -> int:
        """Fails."""
        raise RuntimeError("no guard")


def requests(*executors: int) -> list[PlacementRequest]:
    """Jobs a, b, c, ... with so many executors of one cpu."""
    jobs = [make_job("abcdefgh"[i], count) for i, count in enumerate(executors)]
    return [PlacementRequest(job, job.executors) for job in jobs]


@pytest.fixture
def deciders() -> Iterator[Callable[..., PolicyRunner]]:
    """Make deciders with threads that end with the test."""
    made = []
    release.clear()
    asked.clear()
    before = set(threading.enumerate())

    def make(name: str, fallback: PolicyChoice | None = FIRST_FIT, seconds: float = 30.0) -> PolicyRunner:
        policy = PolicyChoice(name=name if ":" not in name else f"{__name__}{name}")
        made.append(PolicyRunner(policy, fallback, seconds))
        return made[-1]

    yield make
    release.set()
    for each in made:
        each.close()
    deadline = time.monotonic() + PATIENCE
    while set(threading.enumerate()) - before:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_round_is_decided_as_without_a_thread(deciders: Callable[..., PolicyRunner]) -> None:
    """Jobs are decided first come, first served, each on the remaining room, until the head waits.

    Every decision is counted.
    """
    chosen = deciders("ff")
    event, explanations = chosen.decide(VIEW, requests(3, 2, 12, 1))
    placed = {placement.job_id: placement.vm_ids for placement in event.placements}
    assert placed == {"a": ("id-vm-1",) * 3, "b": ("id-vm-1", "id-vm-2")}
    assert event.waiting is not None
    assert event.waiting.job_id == "c"
    assert [(why.job_id, why.policy, why.decision) for why in explanations] == [
        ("a", "ff", "place"),
        ("b", "ff", "place"),
        ("c", "ff", "wait"),
    ]
    status = chosen.status()
    assert (status.placed, status.waited, status.faults, status.busy) == (2, 1, 0, 0.0)
    assert (status.name, status.fallback) == ("ff", "ff")
    _, first = chosen.decide(VIEW, requests(13))
    _, again = chosen.decide(VIEW, requests(13))
    assert len(first) == 1
    assert again == (), "to wait on for the same reason is no news"


def test_a_long_queue_is_decided_in_batches(deciders: Callable[..., PolicyRunner]) -> None:
    """However long the queue, the round goes on until all are placed."""
    view = make_view(make_vms(50, cpus=8))
    queue = [PlacementRequest(make_job(f"job-{i}", 1), 1) for i in range(300)]
    event, explanations = deciders("rr").decide(view, queue)
    assert [placement.job_id for placement in event.placements] == [f"job-{i}" for i in range(300)]
    assert len(explanations) == 300
    assert event.waiting is None


def backwards(view: ClusterView, queue: Requests) -> Decision:
    """The last of the queue first, on the VM with most room; fails at job-7."""
    request = queue[-1]
    if request.job.id == "job-7":
        raise ValueError("seven")
    return Place(request.job.id, (int(view.free_cpus.argmax()),) * request.count)


def test_any_job_of_a_long_queue_may_be_next(deciders: Callable[..., PolicyRunner]) -> None:
    """Across batches and faults every job is placed once; the fallback takes the first that is left."""
    view = make_view(make_vms(50, cpus=8))
    queue = [PlacementRequest(make_job(f"job-{i}", 1), 1) for i in range(150)]
    event, explanations = deciders(":backwards").decide(view, queue)
    expected = [*range(149, 7, -1), *range(8)]
    assert [placement.job_id for placement in event.placements] == [f"job-{i}" for i in expected]
    assert [why.policy for why in explanations[-8:]] == ["ff"] * 8
    assert event.waiting is None


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (
            ":raises",
            f"the policy failed: ValueError: no weights ({__file__}, line {line_of(raises)}, in raises)",
        ),
        (":leaves", f"the policy failed: SystemExit: 3 ({__file__}, line {line_of(leaves)}, in leaves)"),
        (":lies", "VM 99 is not one of the 3 VMs"),
    ],
)
def test_the_fallback_decides_instead_of_a_policy_that_fails(
    deciders: Callable[..., PolicyRunner], name: str, fault: str
) -> None:
    """Every job is placed by the fallback, which is named, with the policy and its fault beside it."""
    chosen = deciders(name)
    event, explanations = chosen.decide(VIEW, requests(1, 2, 3))
    assert [placement.job_id for placement in event.placements] == ["a", "b", "c"]
    told = fault.replace("the policy", f"policy {__name__}{name}")
    told = told if told != fault else f"policy {__name__}{name}: {fault}"
    assert {(why.policy, why.faults) for why in explanations} == {("ff", (told,))}
    status = chosen.status()
    assert (status.placed, status.faults, status.last_fault) == (3, 3, told)


def test_without_a_fallback_the_job_waits_and_says_why(deciders: Callable[..., PolicyRunner]) -> None:
    """`fallback: null` is heeded; so is a fallback that fails in its turn."""
    for fallback in (None, PolicyChoice(name=f"{__name__}:lies")):
        event, (why,) = deciders(":raises", fallback).decide(VIEW, requests(1, 2))
        assert event.placements == ()
        assert event.waiting is not None
        assert why.decision == "wait"
        assert " failed: ValueError: no weights (" in why.faults[0]
        assert f"{RAISES}, in raises)" in why.faults[0]
    assert why.faults[1].endswith("lies: VM 99 is not one of the 3 VMs")


def test_a_policy_that_loops_ends_when_it_is_switched_off(deciders: Callable[..., PolicyRunner]) -> None:
    """Its thread burns a core no longer, without that the policy returns."""
    before = set(threading.enumerate())
    chosen = deciders(":loops", seconds=0.2)
    chosen.decide(VIEW, requests(1))
    assert chosen.status().busy
    chosen.close()
    until(lambda: not set(threading.enumerate()) - before)


def test_a_policy_that_does_not_return_is_left_alone(deciders: Callable[..., PolicyRunner]) -> None:
    """Decisions made in time count; then the fallback decides until the policy has returned.

    No new thread is started meanwhile.
    """
    chosen = deciders(":stuck_on_b", seconds=1.0)
    threads = set(threading.enumerate())
    event, explanations = chosen.decide(VIEW, requests(1, 1, 1))
    assert {p.job_id: p.vm_ids for p in event.placements} == {
        "a": ("id-vm-3",),
        "b": ("id-vm-1",),
        "c": ("id-vm-1",),
    }
    policies, faults = [why.policy for why in explanations], [why.faults for why in explanations]
    assert [name.rpartition(":")[2] for name in policies] == ["stuck_on_b", "ff", "ff"]
    assert faults[0] == ()
    assert faults[1] == (f"policy {__name__}:stuck_on_b did not decide within 1 s",)
    assert "still busy with an earlier job" in faults[2][0]
    chosen.decide(VIEW, requests(1, 1, 1))
    assert asked == ["a", "b"], "not asked again while it is busy"
    assert set(threading.enumerate()) <= threads
    assert chosen.status().busy > 0
    release.set()
    deadline = time.monotonic() + PATIENCE
    while chosen.status().busy:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    _, (why, *_) = chosen.decide(VIEW, requests(1))
    assert (why.policy.rpartition(":")[2], why.faults) == ("stuck_on_b", ())
    assert chosen.status().faults == 5


def test_a_wait_is_a_fault_where_nothing_runs(deciders: Callable[..., PolicyRunner]) -> None:
    """The fallback decides then; while something runs that may end, to wait is a decision like any other."""
    chosen = deciders(":waits")
    event, _ = chosen.decide(VIEW, requests(1, 1))
    assert [placement.job_id for placement in event.placements] == ["a"]
    assert event.waiting is not None
    assert event.waiting.reason == "not today"
    assert chosen.status().faults == 1
    fault = "it waits although nothing runs and a fits: not today"
    assert chosen.status().last_fault == f"policy {__name__}:waits: {fault}"
    assert chosen.trouble == ""
    for _ in range(2):
        chosen.decide(VIEW, requests(1))
    assert chosen.trouble.startswith(f"{__name__}:waits failed 3 times and placed no job since, ff decides")
    event, _ = chosen.decide(VIEW, requests(5, 99))
    assert chosen.status().faults == 4, "the second job fits no VM: there is nothing to place"


def test_beside_a_session_it_is_one_after_half_an_hour(deciders: Callable[..., PolicyRunner]) -> None:
    """And again and again: the daemon says that the policy fails."""
    deciding, session = deciders(":waits"), RunningJob(make_job("session"), ("id-vm-1",), 0.0, None)
    for number in range(361):
        view = replace(VIEW, at=5.0 * number, running=(session,))
        event, _ = deciding.decide(view, requests(2, 1))
        assert len(event.placements) == (2 if number == 360 else 0)
    status = deciding.status()
    assert (status.faults, status.placed, status.waited) == (2, 2, 360)
    assert "it waits although b fits" in status.last_fault
    deciding.decide(replace(VIEW, at=1805.0, running=(session,)), requests(1))
    assert "failed 3 times and placed no job since, ff decides instead" in deciding.trouble


def test_what_fits_nothing_may_wait(deciders: Callable[..., PolicyRunner]) -> None:
    """Though nothing runs."""
    chosen = deciders(":waits")
    event, _ = chosen.decide(VIEW, requests(99))
    assert (event.placements, chosen.status().faults) == ((), 0)


def test_who_waits_for_a_policy_does_something_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader keeps its lease while a policy takes its time."""
    monkeypatch.setattr("daemon.policy.policy_runner._MEANWHILE", 0.01)
    done = threading.Event()

    def slow(view: ClusterView, queue: Requests) -> Decision:
        assert done.wait(300)
        return Wait("not today")

    monkeypatch.setattr("tests.daemon.policy.test_policy_runner.waits", slow)
    made = PolicyRunner(
        PolicyChoice(name="tests.daemon.policy.test_policy_runner:waits"), None, 60.0, meanwhile=done.set
    )
    made.decide(VIEW, requests(99))
    assert (made.waited, made.faults) == (1, 0)
    made.close()


def test_nobody_else_runs_the_code_of_a_policy(deciders: Callable[..., PolicyRunner]) -> None:
    """What it returned is made of plain values by then: explaining it in the loop calls nothing of its."""
    event, (explanation,) = deciders(":decides_elsewhere").decide(VIEW, requests(2))
    assert [placement.vm_ids for placement in event.placements] == [("id-vm-1",) * 2]
    assert explanation.decision == "place"
    assert asked == []


def test_one_that_does_not_say_what_it_is_is_followed_by_the_fallback(
    deciders: Callable[..., PolicyRunner],
) -> None:
    """Neither the choice of a policy nor the loop waits for it longer than for a decision."""
    chosen = deciders(":Learns", seconds=0.2)
    event, _ = chosen.decide(VIEW, requests(2))
    assert [placement.vm_ids for placement in event.placements] == [("id-vm-1",) * 2]
    assert asked == ["begin"]
    assert chosen.status().faults == 1


def test_counts_that_cannot_be_read_cost_nothing(deciders: Callable[..., PolicyRunner]) -> None:
    """Neither the decision nor a question about the policy's counts."""
    chosen = deciders(":Guarded")
    event, _ = chosen.decide(VIEW, requests(2))
    assert [placement.vm_ids for placement in event.placements] == [("id-vm-3",) * 2]
    assert (chosen.status().faults, chosen.status().guarded) == (0, 0)
