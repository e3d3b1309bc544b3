"""Rounds of decisions, and policies that misbehave."""

import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agents.baselines.first_fit import FirstFit
from agents.registry import POLICIES, create
from environment.decisions.decision_round import (
    Verdict,
    WaitingRequests,
    decide_in_turn,
    decide_once,
    has_room,
    which_have_room,
)
from environment.model.messages.events import Placement, Waiting
from environment.model.tasks.launches import decided
from environment.resources import Resources
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView
from tests.builders import make_job, make_request, make_view, make_vm, make_vms

VIEW = make_view(make_vms(2, cpus=2))
Requests = Sequence[PlacementRequest]
first_fit = FirstFit().decide


def raises(view: ClusterView, queue: Requests) -> Decision:
    """Fails."""
    raise ZeroDivisionError("no weights")


def overcommits(view: ClusterView, queue: Requests) -> Decision:
    """Puts everything on the first VM."""
    return Place(queue[0].job.id, (0,) * queue[0].count)


def scribbles(view: ClusterView, queue: Requests) -> Decision:
    """Changes the view."""
    view.free_cpus[:] = 100
    return overcommits(view, queue)


def requests(*executors: int) -> list[PlacementRequest]:
    """Jobs a, b, c, ... with so many executors of one cpu."""
    jobs = [make_job("abcdefgh"[i], count) for i, count in enumerate(executors)]
    return [PlacementRequest(job, job.executors) for job in jobs]


def test_a_round_ends_when_the_head_waits() -> None:
    """Each decision is made on the view that the previous one left, and no job overtakes."""
    verdicts = tuple(decide_in_turn(first_fit, VIEW, requests(3, 2, 1)))
    assert verdicts[0].decision == first_fit(VIEW, requests(3))
    assert [type(verdict.decision) for verdict in verdicts] == [Place, Wait]
    assert verdicts[1].view.free_cpus.tolist() == [0, 1]
    assert VIEW.free_cpus.tolist() == [2, 2]


def test_a_round_ends_with_the_queue() -> None:
    """When all are placed there is no verdict to wait."""
    assert len(tuple(decide_in_turn(first_fit, VIEW, requests(1, 1, 2)))) == 3
    assert tuple(decide_in_turn(first_fit, VIEW, [])) == ()


class MuteError(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("says nothing")


def leaves(view: ClusterView, queue: Requests) -> Decision:
    """Ends the process, as it thinks."""
    sys.exit(0)


class OwnError(BaseException):
    """No Exception, as a policy may define its own."""


def interrupts(view: ClusterView, queue: Requests) -> Decision:
    """Raises what Ctrl-C raises, itself."""
    raise KeyboardInterrupt


def owns(view: ClusterView, queue: Requests) -> Decision:
    """Raises an error of its own that is no Exception."""
    raise OwnError("mine")


def is_stopped(view: ClusterView, queue: Requests) -> Decision:
    """Decides until Ctrl-C ends it."""
    signal.raise_signal(signal.SIGINT)
    time.sleep(60)
    return Wait("late")


def mute(view: ClusterView, queue: Requests) -> Decision:
    """Raises an error whose text raises another."""
    raise MuteError


def nothing(view: ClusterView, queue: Requests) -> Decision:
    """Returns no decision, against its word."""
    return None  # type: ignore[return-value]  # what a careless policy does


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        (raises, "the policy failed: ZeroDivisionError: no weights"),
        (nothing, "the policy returned NoneType, not Place or Wait"),
        (leaves, "the policy failed: SystemExit: 0 ("),
        (mute, "the policy failed: MuteError ("),
        (interrupts, "the policy failed: KeyboardInterrupt ("),
        (owns, "the policy failed: OwnError: mine ("),
        (overcommits, "vm-1 has 2 cpus free, 3 needed"),
        (scribbles, "the policy failed: ValueError: assignment destination is read-only"),
    ],
)
def test_a_bad_decision_makes_the_job_wait(policy: type[FirstFit], fault: str) -> None:
    """The job waits with the reason on any fault of the policy, and the verdict records the fault."""
    verdict = decide_once(policy, VIEW, requests(3))  # type: ignore[arg-type]  # plain functions
    (told,) = verdict.faults
    assert told.startswith(fault), "the place of an error follows"
    assert verdict.decision == Wait(f"the decision could not be executed: {told}")


def test_ctrl_c_ends_more_than_a_decision() -> None:
    """It reaches the caller from within a policy, which has not raised it itself."""
    with pytest.raises(KeyboardInterrupt):
        decide_once(is_stopped, VIEW, requests(3))


@pytest.mark.parametrize(
    ("decision", "fault"),
    [
        (Place("job-1", (0.5,)), "the placement of the decision should be a tuple of int or integer"),  # type: ignore[arg-type]  # what a careless policy does
        (Place("job-1", ("vm-1",)), "the placement of the decision should be a tuple of int or integer"),  # type: ignore[arg-type]  # likewise
        (Place("job-1", [0]), "the placement of the decision should be a tuple of int or integer"),  # type: ignore[arg-type]  # likewise
        (Place("job-1", (0,), why=(None,)), "the why of the decision should be a tuple of str"),  # type: ignore[arg-type]  # likewise
        (Place("job-1", (0,), scores=(1.0,)), "1 scores for 2 VMs"),
        (Place("job-1", (7,)), "VM 7 is not one of the 2 VMs"),
        (Place("job-1", (-1,)), "VM -1 is not one of the 2 VMs"),
        (Place("job-2", (0,)), "decided about job-2, which does not wait; job-1 is next"),
        (Place("x" * 20_000, (0,)), "the job of the decision should be the id of a waiting one, found 'xxx"),
        (Place(None, (0,)), "the job of the decision should be the id of a waiting one, found None"),  # type: ignore[arg-type]  # likewise
        (Wait(None), "the reason to wait is no text"),  # type: ignore[arg-type]  # likewise
        (
            Wait("x", keeps=((2, 1.0),)),
            "the VMs that the decision to wait keeps should be pairs of one of the 2 VMs",
        ),
        (Wait("x", keeps=((0, float("nan")),)), "the VMs that the decision to wait keeps should be pairs"),
        (Wait("x", keeps=(("vm-1", 1.0),)), "the VMs that the decision to wait keeps should be pairs"),  # type: ignore[arg-type]  # likewise
        (
            Place("job-1", (0,), details={f"n{n}": (0.0, 0.0) for n in range(101)}),
            "the decision has 101 details, more than 100",
        ),
    ],
)
def test_a_misshapen_decision_is_not_taken(decision: Decision, fault: str) -> None:
    """A decision with a malformed part is refused, with the correct form."""
    verdict = decide_once(lambda *_: decision, VIEW, [make_request()])
    (told,) = verdict.faults
    assert told.startswith(fault), "the place of an error follows"


def test_texts_of_a_decision_are_cut() -> None:
    """A decision is not refused for how much it tells, as one of many executors tells much."""
    why = ("x" * 20_000, *("y" * 9_999,) * 20)
    verdict = decide_once(lambda *_: Place("job-1", (0,) * 21, why=why), wide_view(1), [wide_request(21)])
    assert isinstance(verdict.decision, Place)
    assert verdict.faults == ()
    assert [len(sentence) for sentence in verdict.decision.why] == [10_000, *[9_999] * 9, 9, *[0] * 10]
    waits = decide_once(lambda *_: Wait("x" * 20_000), VIEW, [make_request(9)])
    assert waits.decision == Wait("x" * 10_000)


def wide_view(vms: int) -> ClusterView:
    """VMs with names as long as they may be, with room for a thousand executors each."""
    name = f"{'ip-10-0-12-131.us-east-1.compute.internal':x<60}"
    return make_view([make_vm(f"{name}-{number}", cpus=100.0) for number in range(vms)])


def wide_request(executors: int) -> PlacementRequest:
    """A job of so many executors of a tenth of a cpu."""
    job = make_job(executors=executors, cpus=0.1, memory_mib=1, expected_duration=60.0)
    return PlacementRequest(job, executors)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_places_a_job_of_thousands_of_executors(policy: str) -> None:
    """However much it tells of each."""
    verdict = decide_once(create(policy).decide, wide_view(5), [wide_request(3_000)])
    assert verdict.faults == ()
    assert isinstance(verdict.decision, Place)
    assert len(verdict.decision.placement) == 3_000


def test_a_round_may_begin_in_the_middle() -> None:
    """The requests before the start are passed over."""
    verdicts = list(decide_in_turn(first_fit, VIEW, WaitingRequests(requests(1, 1, 2), 1)))
    assert [verdict.request.job.id for verdict in verdicts] == ["b", "c"]


def last(view: ClusterView, queue: Requests) -> Decision:
    """Place the last job of the queue; wait as soon as the last job has no room."""
    decision = first_fit(view, queue[-1:])
    return decision if isinstance(decision, Place) else Wait("the last has no room")


def test_any_job_of_the_queue_may_be_placed() -> None:
    """Each job is decided about once, on the room the others left; then the first remaining job waits."""
    verdicts = tuple(decide_in_turn(last, VIEW, requests(1, 3, 2, 1)))
    assert [(verdict.request.job.id, type(verdict.decision)) for verdict in verdicts] == [
        ("d", Place),
        ("c", Place),
        ("a", Wait),
    ]
    assert verdicts[2].view.free_cpus.tolist() == [0, 1]
    event = decided(verdicts, at=7.0)
    assert [placement.job_id for placement in event.placements] == ["d", "c"]
    assert event.waiting == Waiting("a", "the last has no room")
    assert len(tuple(decide_in_turn(last, VIEW, requests(1, 1, 2)))) == 3


def test_a_later_job_is_checked_as_the_first_is() -> None:
    """It is the later job's executors that are counted and have to fit."""
    verdict = decide_once(lambda *_: Place("b", (0, 0, 0)), VIEW, requests(1, 3))
    assert verdict.faults == ("vm-1 has 2 cpus free, 3 needed",)
    assert (verdict.request.job.id, type(verdict.decision)) == ("a", Wait)
    verdict = decide_once(lambda *_: Place("b", (0,)), VIEW, requests(1, 3))
    assert verdict.faults == ("1 executor placed, 3 needed",)


def test_a_later_job_whose_driver_has_no_room_is_named() -> None:
    """The first job then waits; its reason names the later job and its driver, which has no room."""
    job = make_job("b", 4, driver=Resources.of(1, 1024))
    verdict = decide_once(last, VIEW, [*requests(1), PlacementRequest(job, 4)])
    why = "b was to be placed before it, but beside its executors no VM has room for its driver"
    assert (verdict.request.job.id, verdict.decision) == ("a", Wait(f"{why} (1 cpu and 1024 MiB)"))


def test_placed_jobs_run_for_the_next_decision() -> None:
    """A job of this round is among those that run; lost executors join the others of their job.

    On two of three executors it is expected to take half as long again.
    """
    job = make_job("b", 3, expected_duration=60.0)
    again = PlacementRequest(job, 1, ("id-vm-1",), again=True)
    after = VIEW.with_placement(PlacementRequest(job, 2), (0, 1)).with_placement(make_request(1), (0,))
    assert [(r.job.id, r.vm_ids, r.started_at, r.end_at(0.0)) for r in after.running] == [
        ("b", ("id-vm-1", "id-vm-2"), 0.0, 90.0),
        ("job-1", ("id-vm-1",), 0.0, None),
    ]
    joined = after.with_placement(again, (1,)).running
    assert [r.vm_ids for r in joined] == [("id-vm-1", "id-vm-2", "id-vm-2"), ("id-vm-1",)]
    assert (joined[0].expected, joined[0].sizes) == (60.0, ())
    assert [r.vm_ids for r in VIEW.with_placement(again, (1,)).running] == [("id-vm-2",)]


def test_the_fallback_decides_when_the_policy_fails() -> None:
    """Its decision is taken; the policy's fault is kept."""
    verdict = decide_once(raises, VIEW, requests(3), fallback=first_fit)
    assert verdict.decision == first_fit(VIEW, requests(3))
    assert verdict.faults[0].startswith("the policy failed: ZeroDivisionError: no weights (")


def test_a_failing_fallback_adds_its_fault() -> None:
    """Both faults are told, and the job waits."""
    verdict = decide_once(raises, VIEW, requests(3), fallback=overcommits)
    assert len(verdict.faults) == 2
    assert isinstance(verdict.decision, Wait)


def test_the_driver_goes_beside_the_executors_when_there_is_room() -> None:
    """First on a VM of the job's own, else on the first with room, else the job waits."""
    vms = make_vms(2, cpus=2)
    for executors, cpus, expected in ((1, 1.0, 0), (2, 1.0, 1), (1, 1.5, 1)):
        job = make_job(executors=executors, driver=Resources.of(cpus, 1024))
        verdict = decide_once(first_fit, make_view(vms), [PlacementRequest(job, executors)])
        assert isinstance(verdict.decision, Place)
        assert verdict.decision.driver == expected
    job = make_job(executors=4, driver=Resources.of(1, 1024))
    verdict = decide_once(first_fit, make_view(vms), [PlacementRequest(job, 4)])
    assert verdict.decision == Wait("beside its executors no VM has room for its driver (1 cpu and 1024 MiB)")


def test_the_driver_takes_its_room_from_the_next_job() -> None:
    """The second job of the round sees the room that executors and driver left."""
    job = make_job("a", 1, driver=Resources.of(1, 1024))
    queue = [PlacementRequest(job, 1), *requests(1, 1, 1)[1:]]
    verdicts = tuple(decide_in_turn(first_fit, VIEW, queue))
    assert [v.decision.placement for v in verdicts if isinstance(v.decision, Place)] == [(0,), (1,), (1,)]


def test_lost_executors_get_no_second_driver() -> None:
    """Even when all executors are placed again, the driver is there already."""
    job = make_job(executors=2, driver=Resources.of(1, 1024))
    verdict = decide_once(first_fit, VIEW, [PlacementRequest(job, 2, (), again=True)])
    assert isinstance(verdict.decision, Place)
    assert verdict.decision.driver is None


def test_the_event_of_a_round_names_vms_by_id() -> None:
    """Placements and the one that waits, with the time of the view."""
    event = decided(tuple(decide_in_turn(first_fit, VIEW, requests(3, 2))), at=7.0)
    assert event.placements == (Placement("a", ("id-vm-1", "id-vm-1", "id-vm-2")),)
    assert event.waiting == Waiting(
        "b", "room for 1 of 2 executors of 1 cpu and 1024 MiB; of 2 VMs, 1 lacks cpus"
    )
    assert (event.at, event.view_at) == (7.0, 0.0)


def test_the_queue_is_a_window_without_copies() -> None:
    """It begins at the head, and indexes and slices as a sequence does."""
    queue = WaitingRequests(requests(1, 2, 3, 4), 1)
    assert len(queue) == 3
    assert [request.job.id for request in queue] == ["b", "c", "d"]
    assert queue[-1].job.id == "d"
    assert [request.job.id for request in queue[1:]] == ["c", "d"]
    with pytest.raises(IndexError):
        queue[3]


def test_whoever_leaves_the_queue_leaves_the_others_in_order() -> None:
    """The head leaves by moving the window; the others are copied without a later one."""

    def placed(request: PlacementRequest) -> Verdict:
        return Verdict(request, VIEW, Place(request.job.id, (0,)))

    waiting = requests(1, 2, 3, 4)
    queue = WaitingRequests(waiting, 1)
    assert [request.job.id for request in queue.after(placed(waiting[1]))] == ["c", "d"]
    assert [request.job.id for request in queue.after(placed(waiting[2]))] == ["b", "d"]
    assert len(queue) == 3


def test_unknown_ends_stay_unknown_under_a_placement() -> None:
    """A VM with an unknown end stays unknown when a second job with a known end is placed there."""
    request = PlacementRequest(make_job(executors=1, expected_duration=60.0), 1)
    after = VIEW.with_placement(make_request(1), (0,))
    assert str(after.busy_until.tolist()) == "[nan, 0.0]"
    assert str(after.with_placement(request, (0,)).busy_until.tolist()) == "[nan, 0.0]"
    assert VIEW.with_placement(request, (1,)).busy_until.tolist() == [0.0, 60.0]


@pytest.mark.parametrize("left_out", [{}, {"id-vm-1": "is left out"}])
def test_room_of_many_is_the_room_of_each(left_out: dict[str, str]) -> None:
    """Of drivers and of VMs that are no place for a job, too."""
    view = replace(make_view(make_vms(2)), left_out=left_out)
    with_driver = [make_job(executors=count, driver=Resources.of(2.0, 1024)) for count in (6, 7)]
    queue = [make_request(count, cpus) for count in (1, 3, 8, 9) for cpus in (0.5, 1.0, 5.0)]
    queue += [PlacementRequest(job, job.executors) for job in with_driver]
    queue += [replace(queue[6], avoided=("id-vm-2",)), replace(queue[7], avoided=("id-vm-2",))]
    assert which_have_room(view, queue) == [has_room(view, request) for request in queue]
    assert {*which_have_room(view, queue)} == {True, False}
    assert which_have_room(view, []) == []
