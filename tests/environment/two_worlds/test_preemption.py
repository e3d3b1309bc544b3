"""Jobs give way to the same others, and lose the same, in a simulation and in the daemon's model."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from agents.registry import create
from environment.kernel.arrays import jobs_of
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.records import JobRecord
from environment.queues.preemption import HOLD
from environment.queues.types import Sharing
from environment.simulation.options import SimulationOptions, believed
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Job, Vm
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vms
from tests.environment.queues.holding import guaranteed, sharing
from tests.environment.two_worlds.perfect_master import PerfectMaster
from tests.environment.two_worlds.test_two_worlds import Recorder

QUEUES = [guaranteed("prod", 8.0), guaranteed("lab", 4.0), guaranteed("adhoc")]
CASES = {
    "priority": sharing("priority", pause=30.0),
    "guarantee": sharing("guarantee", queues=QUEUES, pause=30.0),
    "both": sharing("priority", "guarantee", queues=QUEUES, pause=30.0, young=300.0),
}
_WAITS = 4


@dataclass
class SharingMaster(PerfectMaster):
    """Checks for preemption whenever a job waits; victims yield at once."""

    sharing: Sharing | None = None

    def _begin(self) -> None:
        self._send(ev.SharingChanged(self._now, self.sharing))

    def _happen(self, kind: int, what: object) -> None:
        if kind == _WAITS:
            record = self.model.job(str(what))
            if record is None or record.state != "queued":
                return
            self._send(ev.Tick(self._now))
            return
        super()._happen(kind, what)
        if isinstance(what, Job):
            self._push(what.submitted_at + HOLD, _WAITS, what.id)

    def _let_decide(self, kinds: set[int]) -> None:
        if kinds == {_WAITS} and not self.model.requests():
            return
        while True:
            self._decide()
            before = sum(len(record.took) for record in self.done.values())
            self._send(ev.RoomSought(self._now))
            if sum(len(record.took) for record in self.done.values()) == before:
                return

    def _offer(self) -> None:
        """Offer twice: reserved resources are launched when offered, and the rest comes back."""
        super()._offer()
        super()._offer()

    def _obey(self, command: cmd.Command) -> None:
        super()._obey(command)
        if isinstance(command, cmd.YieldDriver):
            self._send(ev.DriverEnded(self._now, command.job_id, None, requeue=True))
        elif isinstance(command, cmd.Decommission):
            for task in self.model.tasks(command.job_id):
                if task.number in command.numbers and not task.ended:
                    self._send(ev.TaskChanged(self._now, task.task_id, "finished", task.vm_id))


def workload(seed: int, jobs: int = 30) -> Workload:
    """Jobs of three queues and four priorities, many of them elastic, for a cluster too small for them."""
    rng, at, drawn = np.random.default_rng(seed), 0.0, []
    for number in range(jobs):
        at += float(rng.exponential(25.0))
        executors = int(rng.integers(1, 7))
        least = int(rng.integers(1, executors + 1)) if rng.random() < 0.6 else None
        drawn.append(
            WorkloadJob(
                f"job-{number:03}", round(at, 3), "other", float(rng.integers(1, 3)), 1024, executors,
                float(rng.integers(40, 400)), min_executors=least,
                queue=str(rng.choice(["prod", "lab", "adhoc"])), priority=int(rng.integers(0, 4)),
            )
        )  # fmt: skip
    return Workload(tuple(drawn))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", CASES)
def test_jobs_give_way_alike_in_both_worlds(case: str, seed: int) -> None:
    """The same placements at the same times, the same ends and costs, and the same preemptions."""
    _, records = compare(workload(seed), make_vms(3, cpus=6.0), CASES[case], seed)
    assert any(record.gave for record in records.values()), "nobody gave way"
    check_that_nobody_takes_back(records)


def test_who_is_stopped_for_a_larger_job_begins_after_it_in_both_worlds() -> None:
    """As in twosigma/Cook#412: four jobs of one cpu make room for one of four, once, and wait for its end."""
    small = [WorkloadJob(f"job-{n:03}", 0.0, "other", 1.0, 1024, 1, 200.0) for n in range(4)]
    wide = WorkloadJob("job-009", 20.0, "other", 4.0, 1024, 1, 50.0, priority=9)
    result, records = compare(Workload((*small, wide)), make_vms(1, cpus=4.0), CASES["priority"])
    times = {job.name: (job.started_at, job.ended_at) for job in result.jobs}
    assert result.jobs_stopped == 4
    assert times["job-009"][0] == 20.0 + HOLD
    assert all(times[job.name][0] == times["job-009"][1] for job in small)
    check_that_nobody_takes_back(records)


def test_who_is_not_restartable_is_not_stopped_in_both_worlds() -> None:
    """Of two jobs that are alike the other one is, though it lost more."""
    jobs = [
        WorkloadJob("job-000", 0.0, "other", 2.0, 1024, 1, 200.0),
        WorkloadJob("job-001", 10.0, "other", 2.0, 1024, 1, 200.0, restartable=False),
        WorkloadJob("job-002", 20.0, "other", 2.0, 1024, 1, 50.0, priority=9),
        WorkloadJob("job-003", 20.0, "other", 4.0, 1024, 1, 50.0, priority=8),
    ]
    _, records = compare(Workload(tuple(jobs)), make_vms(1, cpus=4.0), CASES["priority"])
    assert [name for name, record in records.items() if record.gave] == ["job-000"]


def compare(
    jobs: Workload, vms: tuple[Vm, ...], terms: Sharing, seed: int = 0
) -> tuple[Result, dict[str, JobRecord]]:
    """The same jobs through the simulator and through a daemon's model, held together."""
    options = SimulationOptions(seed=seed, sharing=terms)
    here = Recorder(create("ff"))
    result = simulate(here, jobs, vms, options=options)
    there, ends = Recorder(create("ff")), {job.name: job.ended_at for job in result.jobs}
    master = SharingMaster(there, vms, lambda job_id, *_: ends[job_id], sharing=terms)
    records = master.run(believed(jobs_of(jobs, options.profiles), options))
    # A simulation asks its policy a few times more, when nothing has changed but the time.
    assert here.placed == there.placed
    times = {job.name: (job.started_at, job.ended_at) for job in result.jobs}
    assert times == {name: (record.started_at, record.finished_at) for name, record in records.items()}
    gave = [gave for record in records.values() for gave in record.gave]
    assert result.executors_given == sum(each.executors for each in gave if not each.whole)
    assert result.jobs_stopped == sum(each.whole for each in gave)
    assert result.work_given == pytest.approx(sum(each.lost for each in gave))
    costs = {name: record.cost for name, record in records.items()}
    assert {job.name: job.cost for job in result.jobs} == pytest.approx(costs)
    return result, records


def check_that_nobody_takes_back(records: dict[str, JobRecord]) -> None:
    """No two jobs preempt each other; victims rest for the pause, and taken resources were theirs."""
    given = {(record.job.id, gave.to) for record in records.values() for gave in record.gave}
    assert not {(to, of) for of, to in given} & given
    for record in records.values():
        times = [gave.at for gave in record.gave]
        assert all(later - earlier >= 30.0 for earlier, later in itertools.pairwise(times))
        took = {took.at for took in record.took}
        assert all(abs(one - at) >= 30.0 for one in took for at in times)
        assert not any(took.given_up for took in record.took)
