"""The route that tells what would come of the queue."""

from fastapi import FastAPI, Request

from daemon.contract import RejectedError, Scheduler
from daemon.foresight.cases import Case
from daemon.foresight.schemas import Ahead, WhatIf, ahead_body
from daemon.users.permits import permit_of

#: For so many seconds a question may be played of who is no operator.
_LONGEST = 10.0


def add_foresight(app: FastAPI, scheduler: Scheduler) -> None:
    """Add it."""

    @app.post("/v1/what-if")
    def what_if(request: Request, asked: WhatIf) -> Ahead:
        """Play the queue forward as it is now, under the acting policy or others; nothing changes by it."""
        acting, permit = scheduler.policy(), permit_of(request)
        policies = [(policy.name, policy.options) for policy in asked.policies]
        if not permit.person.may("operate"):
            _check_bounds(asked)
        present, found = scheduler.foresight.ask(
            policies or [(acting.name, dict(acting.options))],
            draws=asked.draws,
            seconds=asked.seconds,
            who=permit.person.name,
            cases=[case.case for case in asked.cases] or [Case()],
        )
        return ahead_body(present, found, permit)


def _check_bounds(asked: WhatIf) -> None:
    """Options may name files of the daemon's host, and long questions keep others waiting: RejectedError."""
    if any(policy.options for policy in asked.policies):
        raise RejectedError(403, "Not yours to ask", "options of policies are for operators to try")
    if asked.seconds > _LONGEST:
        why = f"seconds: for who is no operator at most {_LONGEST:g}, found {asked.seconds:g}"
        raise RejectedError(403, "Not yours to ask", why)
