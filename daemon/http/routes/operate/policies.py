"""Routes of policies: the acting one, its shadow, their comparison."""

from typing import Annotated

from fastapi import FastAPI, Query

from agents.registry import list_policies
from conf.schema import PolicyChoice
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
    def policy() -> PolicyBody:
        """Show the acting policy."""
        return shown(leadership.leader().policy())

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

    @app.get("/v1/policy/comparison")
    def comparison(
        query: Annotated[ComparisonQuery, Query()],
    ) -> ComparisonBody:
        """Show the decisions in which shadow policies differ, and their estimated cost."""
        return comparison_body(report(store.comparisons.kept(), query.limit), leadership.leader().policy())
