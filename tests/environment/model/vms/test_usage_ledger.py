"""Jobs' shares of a VM's cost, computed by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environment.model.messages.records import ExecutorRecord
from environment.model.vms.usage_ledger import Ledger
from environment.resources import Resources
from tests.builders import make_vm

VM = make_vm("vm-1", cpus=8, price_per_hour=3.6)  # a tenth of a cent per second


def make_task(number: int, launched_at: float, cpus: float = 1.0, memory_mib: int = 1024) -> ExecutorRecord:
    """An executor on the VM."""
    return ExecutorRecord(
        task_id=f"job-1.{number}",
        job_id="job-1",
        number=number,
        vm_id=VM.id,
        vm_name=VM.name,
        vm_type=VM.type,
        address=VM.address,
        price_per_hour=VM.price_per_hour,
        resources=Resources.of(cpus, memory_mib),
        ports=(),
        launched_at=launched_at,
        share=Resources.of(cpus, memory_mib).share_of(VM.resources),
    )


def test_a_lone_task_pays_for_the_whole_vm() -> None:
    """A VM costs its price while it is held, however little of it is used."""
    ledger, task = Ledger(), make_task(0, 10.0)
    assert ledger.open(task) == []
    assert [cost for _, cost in ledger.close(task, 110.0)] == [pytest.approx(0.1)]
    assert task.cost == pytest.approx(0.1)


def test_tasks_that_share_a_vm_pay_by_their_cpus() -> None:
    """Alone for 100 s, then one cpu beside three for 100 s, then alone again for 100 s."""
    ledger, small, large = Ledger(), make_task(0, 0.0, 1.0), make_task(1, 100.0, 3.0)
    ledger.open(small)
    ledger.open(large)
    ledger.close(large, 200.0)
    ledger.close(small, 300.0)
    assert small.cost == pytest.approx(0.1 + 0.025 + 0.1)
    assert large.cost == pytest.approx(0.075)


def test_who_takes_the_memory_pays_for_it() -> None:
    """One has an eighth of the cpus and three quarters of the memory, the other half of the cpus."""
    ledger, hog, other = Ledger(), make_task(0, 0.0, 1.0, VM.memory_mib * 3 // 4), make_task(1, 0.0, 4.0, 1)
    ledger.open(hog)
    ledger.open(other)
    ledger.close(hog, 100.0)
    ledger.close(other, 100.0)
    assert (hog.cost, other.cost) == pytest.approx((0.1 * 0.75 / 1.25, 0.1 * 0.5 / 1.25))


def test_what_is_due_is_told_without_charging_it() -> None:
    """Tasks owe the charge that would be due at that time; asking changes nothing."""
    ledger, small, large = Ledger(), make_task(0, 0.0, 1.0), make_task(1, 100.0, 3.0)
    assert list(ledger.due(50.0)) == []
    ledger.open(small)
    ledger.open(large)
    for _ in range(2):
        due = {task.task_id: cost for task, cost in ledger.due(200.0)}
        assert due == {"job-1.0": pytest.approx(0.025), "job-1.1": pytest.approx(0.075)}
    assert (small.cost, large.cost) == pytest.approx((0.1, 0.0))
    assert [cost for _, cost in ledger.due(50.0)] == [0.0, 0.0]
    ledger.close(large, 200.0)
    assert large.cost == pytest.approx(0.075)


def test_an_idle_vm_costs_nothing() -> None:
    """Between two tasks nobody pays."""
    ledger, first, second = Ledger(), make_task(0, 0.0), make_task(1, 1000.0)
    for task in (first, second):
        ledger.open(task)
        ledger.close(task, task.launched_at + 1.0)
    assert first.cost + second.cost == pytest.approx(0.002)


def test_the_ledger_knows_what_is_held() -> None:
    """Tasks, cpus and memory of a VM, and none after the last is closed."""
    ledger, tasks = Ledger(), [make_task(0, 0.0, 0.5), make_task(1, 0.0, 2.0)]
    for task in tasks:
        ledger.open(task)
    assert (ledger.count(VM.id), ledger.held(VM.id)) == (2, Resources.of(2.5, 2048))
    for task in tasks:
        ledger.close(task, 1.0)
    assert (ledger.count(VM.id), ledger.held(VM.id)) == (0, Resources())
    assert ledger.count("elsewhere") == 0


def test_a_reopened_task_goes_on_from_where_it_was_charged() -> None:
    """After a restart the time in between is charged too, once."""
    task = make_task(0, 0.0)
    task.accrued_until, task.cost = 50.0, 0.05
    ledger = Ledger()
    ledger.reopen(task)
    ledger.close(task, 100.0)
    assert task.cost == pytest.approx(0.1)


@given(
    st.lists(
        st.tuples(st.floats(0, 1000), st.floats(0, 1000), st.sampled_from([0.1, 1.0, 2.5])),
        min_size=1,
        max_size=8,
    )
)
def test_shares_add_up_to_price_times_held_time(spans: list[tuple[float, float, float]]) -> None:
    """All shares together are the VM's price for the time that it was held, for any tasks."""
    ledger = Ledger()
    tasks = [make_task(i, start, cpus) for i, (start, _, cpus) in enumerate(spans)]
    ends = {task.task_id: start + length for task, (start, length, _) in zip(tasks, spans, strict=True)}
    moments = [(task.launched_at, 0, task) for task in tasks] + [(ends[t.task_id], 1, t) for t in tasks]
    for at, kind, task in sorted(moments, key=lambda moment: moment[:2]):
        if kind == 0:
            ledger.open(task)
        else:
            ledger.close(task, at)
    held, until = 0.0, -math.inf
    for task in sorted(tasks, key=lambda task: task.launched_at):
        held += max(ends[task.task_id] - max(task.launched_at, until), 0.0)
        until = max(until, ends[task.task_id])
    assert math.isclose(sum(task.cost for task in tasks), held * 0.001, abs_tol=1e-9)
