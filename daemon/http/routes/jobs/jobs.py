"""The routes of submitted jobs: lists, one of them, its end, why it waits, its log.

`submissions.py` accepts jobs, `job_bodies.py` makes the answers, `gate.py` authorises requests.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import FastAPI, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from daemon.auth.permits import Permit, permit_of
from daemon.core.errors import RejectedError
from daemon.core.estimate import notes_of
from daemon.core.status import WITH_DRIVER
from daemon.http.routes.jobs.job_names import find_job
from daemon.http.routes.jobs.waiting_reasons import told_of
from daemon.http.server.scheduler_interface import Leadership
from daemon.launch.spark_ui_proxy import SparkUi
from daemon.schemas import explanations, job_bodies, queries
from daemon.schemas import jobs as job_schemas
from daemon.store.job_store import Store
from daemon.store.queries.job_groups import GroupSum
from environment.model.messages.records import ExecutorRecord, JobRecord

#: Jobs of a list that are read at once; and jobs that those of one list come after together, beyond which it
#: is cut: one may come after thousands.
_PART, _MOST_AFTER = 100, 10_000
#: A group in a path.
GroupName = Annotated[str, Path(description="The group's name, or an array's id, such as array-12.")]
#: A job in a path.
JobName = Annotated[str, Path(description="The job's id, such as job-17, or its name.")]


def add_jobs(app: FastAPI, leadership: Leadership, store: Store) -> None:
    """All routes of jobs and of groups of them."""
    uis = SparkUi()

    def known(request: Request, job_id: str) -> JobRecord:
        """The job by its id or its name, where the asker may do this with it."""
        return find_job(store, permit_of(request), job_id)

    def known_group(name: str, owners: Collection[str] | None) -> GroupSum:
        found = None if owners is None else store.jobs.group(name, owners)
        if found is None:
            raise RejectedError(404, "No such group", f"there is no group or array {name}")
        return found

    def summed(permit: Permit, found: GroupSum) -> job_schemas.GroupBody:
        due = leadership.live().due()
        owed = (dollars for job_id in found.open_jobs for dollars in due.get(job_id, {}).values())
        own = set() if found.failure is None else {found.failure.job.id}
        return permit.redacted(job_bodies.group_body(found, math.fsum(owed)), own)

    @app.get("/v1/jobs")
    def jobs(request: Request, query: Annotated[queries.JobsQuery, Query()]) -> job_schemas.JobList:
        """List jobs, the newest first."""
        permit = permit_of(request)
        if (owners := permit.owners(query.owner)) is None:
            return job_schemas.JobList(jobs=[], next=None)
        records, more = _page(store, query, owners)
        live = leadership.live()
        told, due, expected = told_of(live, store, permit, records), live.due(), live.estimates()
        return job_schemas.JobList(
            jobs=[
                job_bodies.job_body(
                    _now(record, due), *told[record.job.id], estimate=expected.get(record.job.id)
                )
                for record in records
            ],
            next=records[-1].job.id if more else None,
        )

    @app.get("/v1/groups/{group}")
    def group(request: Request, group: GroupName) -> job_schemas.GroupBody:
        """Sum up the jobs of a group, or of an array."""
        permit = permit_of(request)
        return summed(permit, known_group(group, permit.owners(())))

    @app.post("/v1/groups/{group}/kill", status_code=202)
    def kill_group(request: Request, group: GroupName) -> job_schemas.GroupBody:
        """End all jobs of a group, or of an array; ended ones are not changed."""
        permit = permit_of(request)
        owners = permit.ruled()
        leadership.leader().kill_all(known_group(group, owners).open_jobs)
        return summed(permit, known_group(group, owners))

    @app.get("/v1/jobs/{job_id}")
    def job(request: Request, job_id: JobName) -> job_schemas.JobDetail:
        """Show a job with its executors."""
        record = known(request, job_id)
        job_id = record.job.id
        live = leadership.live()
        reason, place = told_of(live, store, permit_of(request), [record])[job_id]
        due, spec = live.due(), store.jobs.spec(job_id)
        tasks = [_task_now(task, due.get(job_id, {})) for task in store.jobs.shown_executors(job_id)]
        ui = _ui(record)
        why = reason + _unreadable(store, job_id)
        expected = live.estimates().get(job_id)
        kept = store.estimates.of(job_id)
        notes = [] if expected is None else notes_of(record, expected, leadership.leader().coverage())
        no_estimate = live.no_estimate(record)
        body = job_bodies.job_detail(
            _now(record, due), why, spec, tasks, ui, place, expected, kept, no_estimate, notes
        )
        return permit_of(request).redacted(body, {job_id}).model_copy(update={"reason": body.reason})

    @app.delete("/v1/jobs/{job_id}", status_code=202)
    @app.post("/v1/jobs/{job_id}/kill", status_code=202)
    def kill(request: Request, job_id: JobName) -> job_schemas.JobBody:
        """End a job; an ended one is not changed."""
        job_id = known(request, job_id).job.id
        return permit_of(request).redacted(job_bodies.job_body(leadership.leader().kill(job_id)), {job_id})

    @app.post("/v1/jobs/{job_id}/decommission", status_code=202)
    def decommission(
        request: Request, job_id: JobName, asked: job_schemas.DecommissionBody
    ) -> job_schemas.JobBody:
        """Ask the job's driver to release executors once their blocks have moved; it may get others."""
        numbers = list(dict.fromkeys(asked.executors))
        job_id = known(request, job_id).job.id
        told = leadership.leader().decommission(job_id, numbers, asked.reason)
        return permit_of(request).redacted(job_bodies.job_body(told), {job_id})

    @app.get("/v1/jobs/{job_id}/explain")
    def explain(request: Request, job_id: JobName) -> explanations.ExplanationBody:
        """Show the reasons for a job's placement or wait."""
        record = known(request, job_id)
        job_id = record.job.id
        live = leadership.live()
        reason, place = told_of(live, store, permit_of(request), [record])[job_id]
        found, why = store.jobs.shown_explanations(job_id), reason + _unreadable(store, job_id)
        estimate = job_bodies.estimate_of(record, live.estimates().get(job_id))
        no_estimate = live.no_estimate(record)
        body = explanations.explanation_body(record, why, found, place, estimate, no_estimate)
        return permit_of(request).redacted(body, {job_id})

    @app.get("/v1/jobs/{job_id}/logs")
    def logs(
        request: Request, job_id: JobName, query: Annotated[queries.LogQuery, Query()]
    ) -> job_schemas.LogBody:
        """Read part of the driver's log, or of an executor's."""
        record, executor = known(request, job_id), None
        job_id = record.job.id
        if query.executor is not None:
            executor = store.jobs.task(f"{job_id}.{query.executor}")  # its id says so, however many there are
            if executor is None or executor.number != query.executor:
                raise RejectedError(404, "No such executor", f"{job_id} has no executor {query.executor}")
        found_log = leadership.leader().log(record, executor, query.stream, query.offset, query.limit)
        return job_bodies.log_body(found_log)

    @app.get("/v1/jobs/{job_id}/ui", include_in_schema=False)
    def ui_root(request: Request, job_id: JobName) -> Response:
        """Links in the driver's UI are relative to this."""
        return RedirectResponse(f"/v1/jobs/{known(request, job_id).job.id}/ui/", 308)

    @app.get("/v1/jobs/{job_id}/ui/{path:path}", include_in_schema=False)
    async def ui(job_id: JobName, path: str, request: Request) -> Response:
        """Show a page of the Spark UI of the job's driver, while it runs."""
        record = await run_in_threadpool(known, request, job_id)
        job_id = record.job.id
        shown = await run_in_threadpool(lambda: leadership.leader().ui(record))
        if shown is None:
            raise RejectedError(404, "No driver's UI", f"{job_id} is {record.state}: no driver shows a UI")
        query, visitor = request.scope["query_string"].decode("latin-1"), permit_of(request).person.name
        return await uis.get(shown, f"/v1/jobs/{job_id}/ui", path, query, record.job.owner, visitor)


def _page(store: Store, query: queries.JobsQuery, owners: Collection[str]) -> tuple[list[JobRecord], bool]:
    """Jobs of a page, and whether others may follow. It is shorter where they come after many others."""
    labels, before = _labels(query.label), query.before
    records: list[JobRecord] = []
    while (left := query.limit - len(records)) > 0:
        part = store.jobs.page(
            states=query.state,
            owners=owners,
            queues=query.queue,
            types=query.type,
            group=query.group,
            labels=labels,
            limit=min(left, _PART),
            before=before,
            newest_first=query.order == "newest",
        )
        records += part
        if len(part) < min(left, _PART):
            return records, False
        before = part[-1].job.id
        if sum(len(record.job.after) for record in records) > _MOST_AFTER:
            break
    return records, True


def _now(record: JobRecord, due: Mapping[str, Mapping[str, float]]) -> JobRecord:
    """The record with the cost charged up to now."""
    return replace(record, cost=record.cost + math.fsum(due.get(record.job.id, {}).values()))


def _task_now(task: ExecutorRecord, due: Mapping[str, float]) -> ExecutorRecord:
    return task if task.ended else replace(task, cost=task.cost + due.get(task.task_id, 0.0))


def _labels(pairs: Sequence[str]) -> dict[str, str]:
    """Labels of a query by name; of one that is named twice with other values, no job has both."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if found.setdefault(name, value) != value:
            raise RejectedError(422, "No job has both", f"label: {name}={found[name]} and {name}={value}")
    return found


def _ui(record: JobRecord) -> str | None:
    """Where the Spark UI of the job's driver is, while there is one."""
    if elsewhere := record.job.client_driver:
        return elsewhere if elsewhere.startswith("http") and not record.ended else None
    return f"/v1/jobs/{record.job.id}/ui/" if record.state in WITH_DRIVER else None


def _unreadable(store: Store, job_id: str) -> str:
    """Parts of the job that are left out, since their rows in the store are damaged."""
    rows = [str(damage) for damage in store.damages.of(job_id) if damage.table != "jobs"]
    return f" (left out, as the job store is damaged: {'; '.join(rows)}; see `stoker doctor`)" if rows else ""
