"""Routes of policies: the acting one, its shadow, their comparison."""

from typing import Annotated

from fastapi import FastAPI, Query, Request

from agents.registry import list_policies
from conf.schema import PolicyChoice
from daemon.auth.permits import permit_of
from daemon.core.shadow_comparison import report
from daemon.core.status import PolicyStatus
from daemon.http.server.scheduler_interface import Leadership
from daemon.schemas.policies import (
    ComparisonBody,
    ComparisonQuery,
    PolicyBody,
    PolicyList,
    comparison_body,
    policy_body,
    policy_list,
)
from daemon.schemas.what_if import Promoted, PromotionRequest, promoted_body
from daemon.store.job_store import Store


def add_policies(app: FastAPI, leadership: Leadership, store: Store) -> None:
    """Add the routes that show and switch policies."""

    @app.get("/v1/policies")
    def policies() -> PolicyList:
        """List Stoker's own policies."""
        return policy_list(list_policies())

    def shown(status: PolicyStatus) -> PolicyBody:
        return policy_body(status, leadership.leader().coverage())

    @app.get("/v1/policy")
    def policy(request: Request) -> PolicyBody:
        """Show the acting policy."""
        return permit_of(request).redacted(shown(leadership.leader().policy()), ())

    @app.put("/v1/policy")
    def set_policy(chosen: PolicyChoice) -> PolicyBody:
        """Switch to another policy from the next decision on.

        The body is a text such as `"greedy:beta=0.5"`, or `name` and the options as further keys.
        """
        return shown(leadership.leader().set_policy(chosen.name, chosen.options))

    @app.put("/v1/policy/shadow")
    def set_shadow(chosen: PolicyChoice) -> PolicyBody:
        """Set the shadow policy, which decides without effect; the body is as for `PUT /v1/policy`."""
        return shown(leadership.leader().set_shadow(chosen.name, chosen.options))

    @app.delete("/v1/policy/shadow")
    def drop_shadow() -> PolicyBody:
        """Stop the shadow policy."""
        return shown(leadership.leader().set_shadow(None, {}))

    @app.post("/v1/policy/promotion")
    def promote_policy(request: Request, asked: PromotionRequest) -> Promoted:
        """Switch to another policy if recorded jobs show that it is better; else give the reason.

        The jobs submitted since then are simulated on the current cluster under the acting policy and this
        one, on the same draws of their durations. This one is promoted if its cost is lower by two standard
        errors, its mean completion is not later by two, it failed no decision and no further job would wait
        for ever. From then on the two are compared once an hour, and the earlier one acts again when the
        promoted one is dearer by two standard errors over a day.
        """
        permit = permit_of(request)
        found = leadership.leader().promotions.promote(
            asked.policy,
            asked.since,
            draws=asked.draws,
            seconds=asked.seconds,
            who=permit.person.name,
            dry_run=asked.dry_run,
        )
        return promoted_body(found, permit)

    @app.get("/v1/policy/comparison")
    def comparison(
        query: Annotated[ComparisonQuery, Query()],
    ) -> ComparisonBody:
        """Show the decisions in which shadow policies differ, and their estimated cost."""
        return comparison_body(report(store.comparisons.kept(), query.limit), leadership.leader().policy())
