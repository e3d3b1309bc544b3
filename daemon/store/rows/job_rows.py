"""Records of jobs and tasks and explanations of decisions as rows of the job store, and back.

`tables.py` defines the tables, `checksummed.py` the text of a record.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from conf.schema import JobSpec
from conf.schema.lenient_read import accepted
from daemon.core.job_ids import array_number, job_id, job_number
from daemon.store.rows.checksummed import UnreadableRowError, seal, unseal
from daemon.store.rows.resource_columns import flat, flat_free, free_taken_out, taken_out
from daemon.store.rows.tables import Row
from environment.decisions.explain import CandidateVm, Choice, Explanation
from environment.decisions.vm_kinds import KindEstimate
from environment.dependencies import After
from environment.model.messages.records import (
    Attempt,
    ExecutorRecord,
    ExecutorRequest,
    JobRecord,
    MemoryUse,
    MoreMemory,
    PreemptionGain,
    PreemptionLoss,
)
from environment.number_format import natural_key
from environment.resources import Resources
from environment.scale_up import Grown
from environment.types import MEASURED_REWORK, USUAL_PAUSES, Dynamic, Job, Rework, ShapeChoice
from profiles.curve import Curve

#: Explanations repeat themselves: the quickest level already makes them a tenth of their size.
_COMPRESSION = 1


def job_row(record: JobRecord) -> Row:
    """The columns that follow from a job's record; ValueError for an id that the store did not give."""
    return {
        "number": stored_number(record.job.id),
        "state": record.state,
        "cost": record.cost,
        "finished_at": record.finished_at if record.ended else None,
        "owner": record.job.owner,
        "queue": record.job.queue,
        "name": record.job.name,
        "job_group": record.job.group or None,
        "array_of": array_number(record.job.array),
        "type": record.job.type,
        "record": seal(_encode(record)),
    }


def executor_row(record: ExecutorRecord) -> Row:
    """The row of an executor's record."""
    return {
        "task_id": record.task_id,
        "job": stored_number(record.job_id),
        "state": record.state,
        "launched_at": record.launched_at,
        "record": seal(_encode(record)),
        "cost": record.cost,
        "ended_at": record.ended_at,
    }


def explanation_row(explanation: Explanation) -> Row:
    """The row of an explanation, but for its number."""
    return {
        "job": stored_number(explanation.job_id),
        "decision": explanation.decision,
        "body": zlib.compress(_encode(explanation).encode("ascii"), _COMPRESSION),
    }


def read_job(text: str, number: int) -> JobRecord:
    """The record that `job_row` wrote under that number."""
    record = unseal(_job, text)
    if record.job.id != job_id(number):
        raise UnreadableRowError(f"it is that of {record.job.id}")
    return record


def read_spec(text: str) -> JobSpec:
    """Spec from its stored JSON; rules newer than its acceptance do not apply."""
    return unseal(lambda values: accepted(JobSpec, values), text)


def read_executor(text: str) -> ExecutorRecord:
    """The record that `executor_row` wrote."""
    return unseal(_executor, text)


def read_explanation(body: bytes) -> Explanation:
    """The explanation that `explanation_row` wrote."""
    try:
        text = zlib.decompress(body)
    except zlib.error as error:
        raise UnreadableRowError(str(error)) from error
    return unseal(_explanation, text)


def stored_number(of: str) -> int:
    """The number of a job's id; ValueError for an id that the store did not give."""
    number = job_number(of)
    if number is None:
        raise ValueError(f"{of!r} is not an id of the job store")
    return number


_FIELDS: Mapping[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind))
    for kind in (
        JobRecord,
        Job,
        ExecutorRecord,
        Explanation,
        Choice,
        CandidateVm,
        KindEstimate,
    )
}


#: Classes with a field that holds an amount, which is written as by `flat`.
_AMOUNTS = {Job: "size", ExecutorRecord: "resources", Choice: "size"}


def _encode(record: object) -> str:
    return json.dumps(record, default=_plain, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):  # a policy's scores may be numpy's
        return value.item()
    if isinstance(value, Resources):  # a driver's
        return {name: amount for name, amount in flat(value).items() if amount != {}}
    row = {name: getattr(value, name) for name in _FIELDS[type(value)]}
    if isinstance(value, CandidateVm):
        return row | flat_free(row.pop("free"))
    return row | flat(row.pop(_AMOUNTS[type(value)])) if type(value) in _AMOUNTS else row


def _job(values: Row) -> JobRecord:
    job = values["job"]
    driver, dynamic = job["driver"] and _amounts(job["driver"]), job.get("dynamic")
    made = {"driver": driver, "dynamic": dynamic and Dynamic(*dynamic)}
    made["rework"] = Rework(*job.get("rework", MEASURED_REWORK))  # jobs of earlier versions say none
    made["after"] = tuple(After(*each) for each in job.get("after", ()))
    made["labels"] = tuple((name, value) for name, value in job.get("labels", ()))
    made["unending_on"] = tuple(job.get("unending_on", ()))
    made["pauses"] = type(USUAL_PAUSES)(*job.get("pauses", USUAL_PAUSES))
    made["curve"] = Curve(*job["curve"]) if job.get("curve") else None
    made["shape"] = ShapeChoice.read(job["shape"]) if job.get("shape") else None
    lists = {"grown": Grown, "gave": PreemptionLoss, "took": PreemptionGain, "attempts": Attempt}
    of = {key: tuple(kind(*each) for each in values.get(key, ())) for key, kind in lists.items()}
    asked = tuple(
        ExecutorRequest(profile, _amounts(size), total) for profile, size, total in values.get("wanted", ())
    )
    more: Row = {"more_memory": MoreMemory(*values["more_memory"])} if values.get("more_memory") else {}
    if values.get("memory_use"):
        more["memory_use"] = MemoryUse.read(values["memory_use"])
    return JobRecord(
        **{**values, "job": Job(**{"size": _amounts(job), **job, **made}), "wanted": asked, **of, **more}
    )


def _executor(values: Row) -> ExecutorRecord:
    return ExecutorRecord(**{"resources": _amounts(values), **values, "ports": tuple(values["ports"])})


def _amounts(values: Row) -> Resources:
    found = taken_out(values)
    if found is None:
        raise ValueError("its amounts of resources are missing")
    return found


def _explanation(values: Row) -> Explanation:
    choices = tuple(_choice(choice) for choice in values["choices"])
    kinds = tuple(KindEstimate(**{**kind, "types": tuple(kind["types"])}) for kind in values.get("kinds", ()))
    return Explanation(**{**values, "faults": tuple(values["faults"]), "choices": choices, "kinds": kinds})


def _choice(values: Row) -> Choice:
    candidates = tuple(
        CandidateVm(**{"free": free_taken_out(c), **c, "lacks": tuple(c["lacks"])})
        for c in values["candidates"]
    )
    return Choice(**{"size": taken_out(values), **values, "candidates": candidates})


def by_launch(task: ExecutorRecord) -> Any:
    """Sort key for tasks in order of their launch."""
    return task.launched_at, natural_key(task.task_id)
