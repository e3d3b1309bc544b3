"""The route that tells what would come of the queue."""

from fastapi import FastAPI, Request

from daemon.contract import Scheduler
from daemon.foresight.schemas import Ahead, WhatIf, ahead_body
from daemon.users.permits import permit_of


def add_foresight(app: FastAPI, scheduler: Scheduler) -> None:
    """Add it."""

    @app.post("/v1/what-if")
    def what_if(request: Request, asked: WhatIf) -> Ahead:
        """Play the queue forward as it is now, under the acting policy or others; nothing changes by it."""
        acting = scheduler.policy()
        policies = [(policy.name, policy.options) for policy in asked.policies]
        present, found = scheduler.foresight.ask(
            policies or [(acting.name, dict(acting.options))],
            draws=asked.draws,
            seconds=asked.seconds,
            add=asked.add,
        )
        return ahead_body(present, found, permit_of(request))
