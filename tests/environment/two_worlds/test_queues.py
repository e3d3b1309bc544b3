"""Many users share a cluster in the same order, and below the same limits, in both worlds."""

from dataclasses import replace

import pytest

from conf.schema.sharing import Criterion
from environment.queues.types import Most, Queue, Queues, Sharing
from environment.resources import Resources
from environment.simulation.durations.beliefs import Belief
from environment.simulation.faults.losses import Loss
from environment.simulation.options import SimulationOptions
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vm, make_vms
from tests.environment.two_worlds.test_two_worlds import EXECUTORS, Both, workload

QUEUES = Queues(
    (
        Queue("default"),
        Queue("prod", 3.0, Resources.of(4, 8192)),
        Queue("prod.etl", 2.0, most=Most({"cpus": 32.0}), user_weights={"ann": 2.0}),
        Queue("prod.adhoc", priority=3, most_per_user=Most(running=1)),
        Queue("test", most=Most({"mem": 75_000.0}, running=2)),
    )
)
ORDERS: dict[str, tuple[Criterion, ...]] = {
    "fifo": ("fifo",),
    "fair": ("fair",),
    "priority, fair": ("priority", "fair"),
    "fair, deadline": ("fair", "deadline"),
    "deadline": ("deadline",),
    "shortest": ("shortest",),
}


def shared(name: str, jobs: int) -> Workload:
    """Jobs of three users in four queues, some of them urgent, some with deadlines."""
    drawn = workload(name, jobs).jobs
    return Workload(
        tuple(
            replace(
                job,
                owner=("ann", "bob", "cat")[i % 3],
                queue=QUEUES.leaves[i % 5 % 4],
                priority=(None, 2, 7)[i % 4 % 3],
                deadline=None if i % 3 else 100.0 + 30.0 * i,
            )
            for i, job in enumerate(drawn)
        )
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", ["ff", "aep, first_fit", "greedy", "lookahead"])
def test_jobs_are_placed_in_one_order_in_both_worlds(case: str, order: str) -> None:
    """Orders agree for any policy, and with executors that are lost on the way."""
    sharing = Sharing(
        ORDERS[order],
        half_life=300.0 if case != "greedy" else 0.0,
        starves_after=400.0 if case == "aep, first_fit" else 1e6,
        window=8 if case == "ff" else 256,
        overtaken_at_most=2 if case == "greedy" else None,
        queues=QUEUES,
    )
    options = SimulationOptions(belief=Belief("spread"), seed=2, sharing=sharing)
    both = Both(case, shared("burst", 40), options)
    here, result, _ = both.compare(EXECUTORS)
    assert len(result.jobs) == 40
    queued = [[row[0] for row in each["queue"]] for each in here.shown]
    if order != "fifo":
        assert any(ids != sorted(ids) for ids in queued), "nobody was shown in another order"


@pytest.mark.parametrize(("order", "starves_after"), [("fifo", 1e6), ("priority, fair", 200.0)])
def test_who_was_held_stands_by_when_it_was_let_go_in_both_worlds(order: str, starves_after: float) -> None:
    """Whether by a job or by its time; and so do jobs that are as urgent."""
    jobs = [*shared("burst", 40).jobs]
    for number, other in ((5, 0), (9, 0), (14, 9), (20, 19)):
        jobs[number] = replace(jobs[number], after=(jobs[other].name,))
    held_until = jobs[-1].submitted_at - 20.0
    jobs[2] = replace(jobs[2], start_at=held_until)
    sharing = Sharing(ORDERS[order], starves_after=starves_after, queues=QUEUES)
    options = SimulationOptions(belief=Belief("spread"), seed=2, sharing=sharing)
    here, result, _ = Both("ff", Workload(tuple(jobs)), options).compare(())
    assert len(result.jobs) == 40
    if order == "fifo":
        ids = next(ids for each in here.shown if "job-002" in (ids := [row[0] for row in each["queue"]]))
        before = [job.name for job in jobs if job.submitted_at < held_until and not job.after]
        assert all(
            ids.index(name) < ids.index("job-002") for name in before if name in ids and name != "job-002"
        )


def test_who_no_limit_ever_lets_run_hides_nobody_in_both_worlds() -> None:
    """Such jobs hide none, even if they outnumber the window in the line of a user with other jobs."""
    queues = Queues((Queue("default"), Queue("lab", most=Most({"cpus": 2.0}))))
    jobs = [WorkloadJob(f"wide-{n}", float(n), "sort", 1.0, 1024, 4, 100.0, queue="lab") for n in range(4)]
    jobs.append(WorkloadJob("narrow", 10.0, "sort", 1.0, 1024, 1, 100.0, queue="lab"))
    options = SimulationOptions(seed=2, sharing=Sharing(("fifo",), window=2, queues=queues))
    _, result, _ = Both("ff", Workload(tuple(jobs)), options).compare(())
    assert [job.name for job in result.jobs] == ["narrow"]
    assert len(result.aside) == 4


@pytest.mark.parametrize("sharing", [None, Sharing(("fifo",)), Sharing(("fair",), half_life=0.0)])
@pytest.mark.parametrize("case", ["ff", "greedy", "aep, first_fit"])
def test_a_job_that_lacks_what_its_own_user_holds_keeps_nobody_waiting(
    case: str, sharing: Sharing | None
) -> None:
    """Others run at once; it runs when its user's small job has ended, and nobody goes before it then."""
    jobs = Workload(
        (
            WorkloadJob("small", 0.0, "sort", 1.0, 1024, 1, 500.0, owner="ann"),
            WorkloadJob("wide", 1.0, "sort", 4.0, 1024, 5, 100.0, owner="ann"),
            *(WorkloadJob(f"one-{i}", 2.0 + i, "sort", 1.0, 1024, 1, 50.0, owner="bob") for i in range(6)),
        )
    )
    options = SimulationOptions(sharing=sharing)
    _, result, master = Both(case, jobs, options, make_vms(5, cpus=4.0)).compare(())
    began = {job.name: job.started_at for job in result.jobs}
    assert [began[f"one-{i}"] for i in range(6)] == [2.0 + i for i in range(6)]
    assert began["wide"] == 500.0
    assert {record.state for record in master.done.values()} == {"finished"}


@pytest.mark.parametrize("order", ["fifo", "fair"])
@pytest.mark.parametrize("case", ["ff", "greedy", "aep, first_fit"])
def test_a_limit_in_dollars_holds_up_its_own_jobs_alone(case: str, order: str) -> None:
    """One job of the queue at a time is let by it ($0.06 of $0.1 per hour), and all others run at once."""
    queues = Queues((Queue("default"), Queue("a", most=Most(dollars_per_hour=0.1))))
    jobs = Workload(
        tuple(
            WorkloadJob(f"{queue}-{i}", float(i), "sort", 1.0, 1024, 1, 100.0, queue=queue)
            for i, queue in enumerate(["a", "a", "a", "default", "default", "default"])
        )
    )
    options = SimulationOptions(sharing=Sharing(ORDERS[order], queues=queues))
    _, result, master = Both(case, jobs, options, make_vms(5, cpus=4.0)).compare(())
    began = {job.name: job.started_at for job in result.jobs}
    assert [began[f"default-{i}"] for i in (3, 4, 5)] == [3.0, 4.0, 5.0]
    assert [began[f"a-{i}"] for i in range(3)] == [0.0, 100.0, 200.0]
    assert {record.state for record in master.done.values()} == {"finished"}


@pytest.mark.parametrize("order", ["fifo", "fair"])
@pytest.mark.parametrize("case", ["ff", "greedy", "aep, first_fit"])
def test_of_two_gangs_neither_holds_a_part_that_the_other_waits_for(case: str, order: str) -> None:
    """Two gangs that each need 60 % of the cluster: one runs, then the other at once, in both worlds."""
    jobs = Workload(
        (
            *(
                WorkloadJob(f"gang-{q}", 0.0, "sort", 1.0, 1024, 6, 100.0, queue=q)
                for q in ("prod.etl", "test")
            ),
            *(WorkloadJob(f"small-{i}", 5.0 + i, "sort", 1.0, 1024, 1, 30.0) for i in range(4)),
        )
    )
    options = SimulationOptions(sharing=Sharing(ORDERS[order], queues=QUEUES))
    _, result, master = Both(case, jobs, options, make_vms(5, cpus=2.0)).compare(())
    assert len(result.jobs) == 6
    one, other = sorted(result.jobs[:2], key=lambda job: job.started_at)
    assert {one.name, other.name} == {"gang-prod.etl", "gang-test"}
    assert (one.started_at, other.started_at) == (0.0, one.ended_at)
    assert len(one.placement) == len(other.placement) == 6
    assert {record.state for record in master.done.values()} == {"finished"}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", ["ff", "greedy", "lookahead"])
def test_a_job_that_fits_nowhere_keeps_none_of_its_users_waiting(case: str, order: str) -> None:
    """As in twosigma/Cook#107: one wants 6 cpus where VMs have 4; all others run, in both worlds."""
    asked = (("a", 40.0, 1.0, 17.0), ("b", 41.0, 6.0, 6.0), ("c", 44.0, 1.0, 2.0), ("d", 45.0, 1.0, 7.0))
    jobs = [
        WorkloadJob(name, at, "sort", cpus, 1024, 1, seconds, owner="ann", queue="prod.etl")
        for name, at, cpus, seconds in asked
    ]
    jobs.append(WorkloadJob("other", 46.0, "sort", 1.0, 1024, 1, 5.0, owner="bob", queue="prod.etl"))
    options = SimulationOptions(sharing=Sharing(ORDERS[order], window=2, queues=QUEUES))
    vms = (make_vm("large", cpus=16.0), make_vm("small", cpus=4.0))
    _, result, _ = Both(case, Workload(tuple(jobs)), options, vms).compare((Loss(30.0, vm="id-large"),))
    assert {job.name: job.started_at for job in result.jobs} == {
        "a": 40.0,
        "c": 44.0,
        "d": 45.0,
        "other": 46.0,
    }
    assert list(result.aside) == ["b"]
    assert result.aside["b"].startswith("an executor of 6 cpus and 1024 MiB fits no VM of the cluster")
