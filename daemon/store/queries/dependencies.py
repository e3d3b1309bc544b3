"""Resolves a submitted job's dependencies: names become ids of jobs and arrays.

The cluster model decides the consequences when these end.
"""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from conf.schema import JobSpec
from conf.schema.job import Dependency
from daemon.core import job_ids
from daemon.core.identity import NOBODY, Submitter
from daemon.store.rows import tables
from daemon.store.rows.tables import jobs
from environment.dependencies import After, End
from environment.model.messages.states import ENDED_JOB

#: Jobs and arrays that a job may come after, those of its groups counted one by one; and so many of all jobs
#: of an array together: each keeps its own list, and the scheduling loop notes each of each.
_MOST, _MOST_OF_ARRAY = 1000, 20_000


class UnknownDependencyError(Exception):
    """A job depends on a job that does not exist; the text names it and suggests a valid one."""


def dependencies_of(
    connection: Connection, spec: JobSpec, submitter: Submitter = NOBODY
) -> tuple[After, ...]:
    """Return a new job's dependencies, each once. UnknownDependencyError.

    Jobs that the submitter may not see count as missing.
    """
    seen = sa.true() if submitter.sees_all else jobs.c.owner == submitter.name
    named = (each if isinstance(each, Dependency) else Dependency(job=each) for each in spec.after)
    most = min(_MOST, _MOST_OF_ARRAY // (spec.count or 1))
    found: dict[str, After] = {}
    for one in dict.fromkeys(named):  # a group that is named again has all its jobs looked up again
        for after in _looked_up(connection, one, spec, seen):
            known = found.get(after.job)
            if known is None or known.when == "any":
                found[after.job] = after
        if len(found) > most:
            which = "each job of this array" if spec.count else "a job"
            raise UnknownDependencyError(
                f"after: {which} may come after no more than {most:,}: the jobs of its groups count "
                "one by one, an array counts as one"
            )
    return tuple(found.values())


def _looked_up(
    connection: Connection, named: Dependency, spec: JobSpec, seen: sa.ColumnElement[bool]
) -> list[After]:
    name = named.job or named.group or ""
    if (number := job_ids.array_number(name)) is not None:
        return [_array(connection, name, number, named.when, seen=seen)]
    if named.group is not None:
        return _group(connection, name, spec.owner, named.when)
    if (number := job_ids.job_number(name)) is not None:
        ended = connection.execute(sa.select(jobs.c.state).where(jobs.c.number == number, seen)).scalar()
        if ended is None:
            raise UnknownDependencyError(f"after: there is no job {name}")
        return [_job(number, ended, named.when, "")]
    latest = sa.select(jobs.c.number, jobs.c.state, jobs.c.array_of).where(
        jobs.c.owner == spec.owner, jobs.c.name == name
    )
    row = connection.execute(latest.order_by(jobs.c.number.desc()).limit(1)).first()
    if row is not None and row.array_of is not None:
        return [_array(connection, f"array-{row.array_of}", row.array_of, named.when, name)]
    if row is not None:
        return [_job(row.number, row.state, named.when, name)]
    if found := _group(connection, name, spec.owner, named.when, or_none=True):
        return found
    whose = f"{spec.owner} has" if spec.owner else "there is"
    itself = " but this one, which cannot come after itself" if name == spec.label else ""
    raise UnknownDependencyError(
        f"after: {whose} no job or group {name}{itself}; a job is named by its id, such as job-7, or its name"
    )


def _job(number: int, state: str, when: End, name: str) -> After:
    return After(job_ids.job_id(number), when, name, ended=state if state in ENDED_JOB else "")


def _array(
    connection: Connection,
    array_id: str,
    number: int,
    when: End,
    name: str = "",
    *,
    seen: sa.ColumnElement[bool] | None = None,
) -> After:
    query = sa.select(jobs.c.state, sa.func.max(jobs.c.number).label("last"))
    query = query.where(jobs.c.array_of == number)
    query = query if seen is None else query.where(seen)
    rows = connection.execute(query.group_by(jobs.c.state).order_by(sa.func.min(jobs.c.number))).all()
    if not rows:
        raise UnknownDependencyError(f"after: there is no array {array_id}")
    ended = _end_of([row.state for row in rows])
    return After(array_id, when, name, max(row.last for row in rows) - number + 1, ended)


def _end_of(states: list[str]) -> str:
    """Common end state of jobs, by all states that occur among them; empty while it is unknown."""
    bad = [state for state in states if state in ENDED_JOB and state != "finished"]
    if bad:
        return bad[0] if all(state in ENDED_JOB for state in states) else ""
    return "finished" if all(state in ENDED_JOB for state in states) else ""


def _group(
    connection: Connection, group: str, owner: str, when: End, *, or_none: bool = False
) -> list[After]:
    """Open jobs of the group and one that failed or was killed; the latest one if all have finished."""
    query = sa.select(jobs.c.number, jobs.c.state).where(jobs.c.job_group == group, jobs.c.owner == owner)
    latest = connection.execute(query.order_by(jobs.c.number.desc()).limit(1)).first()
    if latest is None:
        if or_none:
            return []
        whose = f"{owner} has" if owner else "there is"
        raise UnknownDependencyError(f"after: {whose} no group {group}")
    going = connection.execute(query.where(jobs.c.state.in_(tables.OPEN_JOB)).limit(_MOST + 1)).all()
    if len(going) > _MOST:
        raise UnknownDependencyError(f"after: {group} has more than {_MOST} jobs that have not ended")
    bad = connection.execute(query.where(jobs.c.state.in_(("failed", "killed"))).limit(1)).first()
    rows = [*going, *([bad] if bad else [])] or [latest]
    return [_job(row.number, row.state, when, group) for row in rows]
