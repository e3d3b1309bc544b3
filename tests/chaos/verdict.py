"""After a chaos run: the fate of every job, double runs and leftovers, and whether the sums are right."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from daemon.store.job_store import Store
from environment.model.messages.records import ExecutorRecord, JobRecord
from tests.chaos.users import Submission

CENTS = 1e-6  # dollars: sums of many floats


def losses(jobs: list[Submission], store: Store, log: Path, left: list[str], seconds: float) -> Iterator[str]:
    """Everything that is not as it must be after a day of so many seconds, in words."""
    records = {record.job.id: record for record in store.jobs.page(limit=100_000)}
    accepted = {job.id for job in jobs}
    yield from (f"{job_id} was accepted and is not in the store" for job_id in accepted - records.keys())
    yield from (f"{job_id} is in the store and was never accepted" for job_id in records.keys() - accepted)
    for job in jobs:
        if job.id in records:
            yield from wrong_end(job, records[job.id])
    tasks = {job_id: store.jobs.executors(job_id) for job_id in records}
    yield from open_or_odd(tasks)
    yield from wrong_sums(records, tasks)
    yield from wrong_times(records, tasks, seconds)
    yield from ran_twice(log)
    yield from (f"still running: {process}" for process in left)
    still = [job.job.id for job in store.jobs.open.unfinished()[0]]
    if still:
        yield f"not over for the next daemon: {still}"


def wrong_end(job: Submission, record: JobRecord) -> Iterator[str]:
    """Whether a job's last state, reason and exit code are true."""
    who = f"{job.id} ({job.kind} {job.deed}, {sorted(job.excuses)})"
    what = f"{who} is {record.state}, {record.exit_code}: {record.reason}"
    # Spark's rule: so many executors may fail, whoever killed them.
    worn_out = record.state == "failed" and record.failures > max(2 * job.executors, 3)
    if record.state not in job.expected and not worn_out:
        yield f"{what}; expected {sorted(job.expected)}"
    if (record.state == "finished") != (record.exit_code == 0):
        yield f"{what}; its exit code says otherwise"
    if job.kind == "fails" and record.exit_code not in (3, 137, 143, None):
        yield f"{what}; it exits with 3 unless it is killed"
    blameless = record.state == "failed" and not job.excuses and not worn_out
    if job.kind == "overdue" and blameless and "max_runtime" not in record.reason:
        yield f"{what}; it was to be ended for its max_runtime"
    if job.kind == "clustered" and record.state == "failed" and "its driver on" not in record.reason:
        yield f"{what}; it has no such reason to fail"


def open_or_odd(tasks: dict[str, list[ExecutorRecord]]) -> Iterator[str]:
    """Whether every task has ended, under a number of its own."""
    for job_id, executors in tasks.items():
        yield from (f"{task.task_id} has not ended: {task.state}" for task in executors if not task.ended)
        numbers = [task.number for task in executors if task.number is not None]
        if len(set(numbers)) != len(numbers):
            yield f"{job_id} used a number twice: {numbers}"


def wrong_sums(records: dict[str, JobRecord], tasks: dict[str, list[ExecutorRecord]]) -> Iterator[str]:
    """Whether tasks pay for their jobs, and all jobs together for the time that VMs were held."""
    for job_id, record in records.items():
        paid = sum(task.cost for task in tasks[job_id])
        if not math.isclose(record.cost, paid, abs_tol=CENTS):
            yield f"{job_id} cost {record.cost}, its tasks {paid}"
    by_vm: dict[str, list[ExecutorRecord]] = defaultdict(list)
    for task in (task for executors in tasks.values() for task in executors if task.ended):
        by_vm[task.vm_id].append(task)
    for vm_id, held in by_vm.items():
        bill, paid = held_seconds(held) * held[0].price_per_hour / 3600, sum(task.cost for task in held)
        if not math.isclose(bill, paid, abs_tol=CENTS):
            yield f"{held[0].vm_name} ({vm_id}) was held for {bill} dollars, paid for with {paid}"


def wrong_times(
    records: dict[str, JobRecord], tasks: dict[str, list[ExecutorRecord]], seconds: float
) -> Iterator[str]:
    """Times that went backwards, or took longer than the day, despite changes of the wall clock."""
    for job_id, record in records.items():
        since, until = record.job.submitted_at, record.finished_at
        if until is not None and not 0 <= until - since <= seconds:
            yield f"{job_id} took {until - since} s of a day of {seconds} s"
        for task in tasks[job_id]:
            if task.ended_at is not None and not 0 <= task.ended_at - task.launched_at <= seconds:
                yield f"{task.task_id} took {task.ended_at - task.launched_at} s of a day of {seconds} s"


def held_seconds(tasks: list[ExecutorRecord]) -> float:
    """For how long at least one of the tasks was there."""
    total, until = 0.0, 0.0
    for task in sorted(tasks, key=lambda task: task.launched_at):
        end = task.ended_at or task.launched_at
        total += max(0.0, end - max(task.launched_at, until))
        until = max(until, end)
    return total


def ran_twice(log: Path) -> Iterator[str]:
    """Whether an executor's number, a job's driver on the host, or a driver's task was started twice."""
    starts: Counter[str] = Counter()
    for line in log.read_text().splitlines():
        kind, name, *_ = line.split()
        starts[f"{kind} {name}"] += 1
    yield from (f"{name} ran {count} times" for name, count in starts.items() if count > 1)


def report(
    seed: int, seconds: float, faults: Counter[str], jobs: list[Submission], store: Store, found: list[str]
) -> str:
    """The run's events, as a page of text."""
    states = Counter(store.jobs.get(job.id).state for job in jobs if store.jobs.get(job.id))  # type: ignore[union-attr]  # looked up
    executors = store.jobs.totals().executors
    lines = [
        f"seed {seed}, {seconds:.0f} s",
        f"{sum(faults.values())} faults: " + listed(faults),
        f"{len(jobs)} jobs: " + listed(states),
        f"{sum(executors.values())} tasks: " + listed(executors),
        f"losses: {len(found) or 'zero'}",
        *(f"  {line}" for line in found),
    ]
    return "\n".join(lines)


def listed(counts: Any) -> str:
    """Counts in words, the most first."""
    return ", ".join(f"{count} x {name}" for name, count in Counter(counts).most_common())
