"""The route that forecasts the queue."""

from collections.abc import Callable

from fastapi import FastAPI, Request

from daemon.auth.permits import Permit, permit_of
from daemon.core.errors import RejectedError
from daemon.http.server.scheduler_interface import Leadership
from daemon.schemas.what_if import Ahead, WhatIf, ahead_body
from daemon.store.job_store import Store
from daemon.what_if.cases import Case
from daemon.what_if.recorded_jobs import RecordedJobs, recorded

#: Longest time of a what-if for a caller who is not an operator, seconds.
_LONGEST = 10.0


def add_foresight(app: FastAPI, leadership: Leadership, store: Store) -> None:
    """Add it."""

    @app.post("/v1/what-if")
    def what_if(request: Request, asked: WhatIf) -> Ahead:
        """Simulate the current queue, under the acting policy or others; changes nothing.

        With `since`, the jobs submitted since then are simulated on the current cluster, instead of the
        queue.
        """
        acting, permit = leadership.leader().policy(), permit_of(request)
        policies = [(policy.name, policy.options) for policy in asked.policies]
        if not permit.person.may("operate"):
            _check_bounds(asked)
        past = None if asked.since is None else _past(asked.since, permit, store)
        present, found = leadership.leader().foresight.ask(
            policies or [(acting.name, dict(acting.options))],
            draws=asked.draws,
            seconds=asked.seconds,
            who=permit.person.name,
            past=past,
            cases=[case.case for case in asked.cases] or [Case()],
        )
        return ahead_body(present, found, permit, leadership.leader().cluster().note)


def _past(since: float, permit: Permit, store: Store) -> Callable[[], RecordedJobs]:
    """Reader of the jobs submitted since then; RejectedError for users with limited sight."""
    if permit.limited:
        why = "since: simulates the jobs of all users, and you see only your own"
        raise RejectedError(403, "Not allowed", why)
    return lambda: recorded(lambda limit, before: store.jobs.page(limit=limit, before=before), since)


def _check_bounds(asked: WhatIf) -> None:
    """Options may name files of the daemon's host, and long questions keep others waiting: RejectedError."""
    if any(policy.options for policy in asked.policies):
        raise RejectedError(403, "Not allowed", "options of policies require the role operate")
    if asked.seconds > _LONGEST:
        why = f"seconds: at most {_LONGEST:g} without the role operate, found {asked.seconds:g}"
        raise RejectedError(403, "Not allowed", why)
