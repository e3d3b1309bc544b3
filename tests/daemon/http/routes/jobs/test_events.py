"""Events are reported once, in order, and only to users authorised to see their job."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conf.schema import Config, PolicyChoice, QueueSettings
from daemon.policy.active_policies import PolicySwitch
from daemon.queues.live_queues import LiveQueues
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from daemon.store.rows.event_recorder import EventRecorder, HistoryEvent
from environment.model.cluster_model import Changes
from environment.model.messages.lease import Lease
from environment.model.messages.records import Attempt, JobRecord, PreemptionLoss
from environment.model.messages.vm_accounts import Account
from environment.resources import Resources
from environment.types import Vm
from tests.daemon.store.test_job_store import make_explanation, make_job, make_task, submit, url_of


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of either kind."""
    url = url_of(tmp_path) if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    with contextlib.closing(Store(url)) as store:
        yield store


def told(chronicle: EventRecorder, at: float, *jobs: JobRecord) -> list[tuple[str, str]]:
    """Kinds and texts of the events that changed jobs cause."""
    return [(each.kind, each.text) for each in chronicle.tell(at, Changes(jobs, ()))]


def test_the_life_of_a_job() -> None:
    """Each step once; a reason only when its words change, and not too often."""
    chronicle, job = EventRecorder(), JobRecord(make_job("job-1"))
    assert told(chronicle, 1.0, job) == []
    assert told(chronicle, 10.0, replace(job, reason="vm-1 has 2 cpus")) == [("waits", "vm-1 has 2 cpus")]
    assert told(chronicle, 20.0, replace(job, reason="vm-2 has 3 cpus")) == []
    assert told(chronicle, 21.0, replace(job, reason="no VM at all")) == [("waits", "no VM at all")]
    assert told(chronicle, 22.0, replace(job, reason="too little memory")) == []
    assert told(chronicle, 27.0) == [("waits", "too little memory")]
    placed = make_explanation("job-1")
    tasks = tuple(make_task("job-1", n, vm_name=f"vm-{1 + n // 2}") for n in range(3))
    batch = chronicle.tell(30.0, Changes((replace(job, state="placing"),), tasks), [placed])
    assert [(each.kind, each.text) for each in batch] == [
        ("decided", "ff (the fallback, as fault): because"),
        ("launched", "executors 0, 1 on vm-1; executor 2 on vm-2"),
    ]
    runs = replace(job, state="running", reason="all run")
    assert told(chronicle, 31.0, runs) == [("running", "all run")]
    lost = replace(tasks[2], state="lost", message="its VM went")
    (event,) = chronicle.tell(32.0, Changes((), (lost,)))
    assert (event.kind, event.text) == ("executors lost", "lost: executor 2 on vm-2: its VM went")
    gave = PreemptionLoss(33.0, "job-2", "batch", 1, 1, 0.5, whole=False)
    assert told(chronicle, 33.0, replace(runs, gave=(gave,))) == [("preempted", gave.told)]
    runs = replace(runs, gave=(gave,), attempts=(Attempt(31.0, 34.0, "user", "exit code 1"),))
    again = replace(runs, state="queued", reason="retry 1 of 2 at once", retried=1)
    assert told(chronicle, 34.0, again) == [
        ("attempt failed", "exit code 1 (fault: user)"),
        ("retried", "retry 1 of 2 at once"),
    ]
    failed = replace(again, state="failed", reason="exit code 1: ValueError: no such file")
    assert told(chronicle, 35.0, failed) == [("failed", failed.reason)]
    assert told(chronicle, 36.0, replace(failed, cost=0.5)) == []  # as its last task ends
    assert chronicle._jobs == {}


def test_a_reason_that_stands_is_told_when_it_may_be() -> None:
    """One that came too soon after another, or after the first, which is silent; and it is told once."""
    chronicle, job = EventRecorder(), JobRecord(make_job("job-1"))
    assert not chronicle.due(1.0)
    assert told(chronicle, 1.0, job) == []
    assert told(chronicle, 1.2, replace(job, reason="vm-1 has 2 cpus")) == []
    assert told(chronicle, 4.0, replace(job, reason="vm-1 has 3 cpus")) == []
    assert not chronicle.due(5.9)
    assert chronicle.due(6.0)
    assert told(chronicle, 6.0) == [("waits", "vm-1 has 3 cpus")]
    assert not chronicle.due(1e9)
    assert told(chronicle, 7.0, replace(job, reason="vm-1 has 1 cpu")) == []  # which are other words
    assert told(chronicle, 8.0, replace(job, reason="vm-1 has 5 cpus")) == []  # and those of before
    assert told(chronicle, 20.0) == []
    assert told(chronicle, 30.0, replace(job, reason="no VM")) == [("waits", "no VM")]
    assert told(chronicle, 31.0, replace(job, reason="no room")) == []
    assert told(chronicle, 32.0, replace(job, state="placing")) == []
    assert told(chronicle, 40.0) == []


def test_vms_and_what_an_earlier_daemon_told() -> None:
    """VMs of pools and fixed ones; after a restart nothing is told twice."""
    chronicle, vm = EventRecorder(), Vm("general-3", "general-3", "m1.large", Resources.of(4.0, 16384), 0.24)
    lease = Lease("general-3.17", vm, 1.0, reason="for job-1")
    fixed = Account("S1", "vm-1", "m1.large", 0.24, 1.0, 1.0)
    opened = chronicle.tell(1.0, Changes((), (), leases=(lease,), accounts=(fixed,)))
    assert [(each.kind, each.text) for each in opened] == [
        ("vm opening", "general-3.17 (m1.large): for job-1"),
        ("vm ready", "vm-1 (m1.large): its agent has come"),
    ]
    another, task = EventRecorder(), make_task("job-1", 0, state="running")
    runs = JobRecord(make_job("job-1"), state="running")
    another.take_up([runs], [task], [lease], [fixed])
    assert another.tell(2.0, Changes((runs,), (task,), leases=(lease,), accounts=(fixed,))) == []
    closed = replace(lease, state="closed"), replace(fixed, closed=True)
    found = another.tell(3.0, Changes((), (), leases=closed[:1], accounts=closed[1:]))
    assert [each.kind for each in found] == ["vm closed", "vm closed"]


def test_it_is_kept_with_what_it_tells_of_and_goes_with_its_job(store: Store) -> None:
    """All or none, in pages and by cursor; the oldest go when there are too many."""
    job = submit(store)
    ended = replace(job, state="finished", finished_at=9.0)
    happened = [HistoryEvent(float(n), "job-1" if n % 2 else None, "waits", str(n)) for n in range(1, 9)]
    store.changes.save(Changes((ended,), ()), happened=happened)
    with pytest.raises(StoreError):
        store.changes.save(Changes((), (make_task("job-77", 0),)), happened=happened)  # of no job
    last = store.events.read(3)
    assert [each.happening.text for each in last.found] == ["6", "7", "8"]
    assert not last.more
    page = store.events.read(3, since=3.0)
    assert [each.happening.text for each in page.found][1:] == ["3", "4"]
    assert page.more
    rest = store.events.read(100, since=3.0, after=page.next)
    assert [each.happening.text for each in rest.found] == ["5", "6", "7", "8"]
    assert store.events.read(5, after=rest.next).found == []
    of_job = store.events.read(100, job_id="job-1")
    assert [each.happening.kind for each in of_job.found] == ["submitted", *["waits"] * 4]
    assert store.jobs.ended.prune(["job-1"]) == 1
    assert store.events.read(100, job_id="job-1").found == []
    assert store.events.trim(kept=3) > 0
    assert [each.happening.text for each in store.events.read(100).found] == ["6", "8"]
    assert store.events.trim(kept=3) == 0
    submit(store)  # a number is never given twice, even where the last one is gone
    assert [each.happening.kind for each in store.events.read(5, after=rest.next).found] == ["submitted"]


def test_what_operators_change_is_told(tmp_path: Path) -> None:
    """Another policy, a shadow, a queue's limits."""
    store = Store(url_of(tmp_path))
    switch = PolicySwitch(Config(), store)
    switch.set_policy("rr", {})
    switch.set_shadow("greedy", {})
    switch.close()
    queues = LiveQueues(Config(), store)
    queues.put("batch", QueueSettings(weight=2.0))
    assert [(e.happening.kind, e.happening.text) for e in store.events.read(9).found] == [
        ("policy changed", PolicyChoice(name="rr").name),
        ("shadow changed", "greedy"),
        ("queue changed", "batch has weight: 2.0"),
    ]
    store.close()
