"""Simulated runs as rows for spreadsheets and pandas: by run, by job, by decision, or by executor.

Times are seconds from the workload's beginning, memory is MiB, costs are dollars.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from agents.experiments.comparison import SimulatedRun
from environment.types import Place, Vm

Row = Mapping[str, object]


def _of_run(run: SimulatedRun) -> Iterator[Row]:
    result = run.result
    facts = {"truth": result.truth, "belief": result.belief, "spot_belief": result.spot_belief}
    bill = {f"bill_{cause}": dollars for cause, dollars in result.bill.parts().items() if cause != "openings"}
    yield {**facts, **result.summary(), "bound": result.bound, **bill}


def _of_jobs(run: SimulatedRun) -> Iterator[Row]:
    vms = run.result.vms
    for job in run.result.jobs:
        yield {
            "job": job.name,
            "type": job.type,
            "owner": job.owner,
            "queue": job.queue,
            "priority": job.priority,
            "executors_asked": job.executors,
            "executors": len(job.placement),
            "cpus": job.cpus,
            "memory_mib": job.memory_mib,
            "submitted_at": job.submitted_at,
            "started_at": job.started_at,
            "ended_at": job.ended_at,
            "deadline": job.deadline,
            "wait": job.wait,
            "duration": job.duration,
            "completion": job.completion,
            "cost": job.cost,
            "good": job.good,
            "vms": _names(job.placement, vms),
        }


def _of_decisions(run: SimulatedRun) -> Iterator[Row]:
    for traced in run.result.decisions:
        decision = traced.decision
        if isinstance(decision, Place):
            kind, reason = "place", "; ".join(decision.why)
            vms = _names(decision.placement, run.result.vms)
        else:
            kind, reason, vms = "wait", decision.reason, ""
        yield {
            "at": traced.at,
            "job": traced.job,
            "waiting_jobs": traced.queue,
            "decision": kind,
            "reason": reason,
            "vms": vms,
            "faults": "; ".join(traced.faults),
        }


def _of_executors(run: SimulatedRun) -> Iterator[Row]:
    result, held = run.result, run.result.held
    columns = (held.job, held.vm, held.start, held.end, held.kind)
    for job, number, start, end, kind in zip(*(column.tolist() for column in columns), strict=True):
        vm = result.vms[number] if number < len(result.vms) else None
        yield {
            "job": result.jobs[job].name,
            "type": result.jobs[job].type,
            "vm": vm.name if vm else "",
            "vm_type": vm.type if vm else "",
            "started_at": start,
            "ended_at": end,
            "cpus": held.kinds[kind].cpus,
            "memory_mib": held.kinds[kind].memory_mib,
        }


def _names(placement: Sequence[int], vms: Sequence[Vm]) -> str:
    return " ".join(vms[number].name for number in placement if number < len(vms))


_ROWS: Mapping[str, Callable[[SimulatedRun], Iterator[Row]]] = {
    "runs": _of_run,
    "jobs": _of_jobs,
    "decisions": _of_decisions,
    "executors": _of_executors,
}


def rows_of(runs: Sequence[SimulatedRun], by: str) -> Iterator[Row]:
    """Rows with the same keys: one for each run, or each of its jobs, decisions or executors.

    An executor that was placed again has a row for each VM that held it; a VM that is not known is empty.
    """
    for run in runs:
        head = {"policy": run.policy, "workload": run.workload, "seed": run.seed}
        for row in _ROWS[by](run):
            yield {**head, **row}
