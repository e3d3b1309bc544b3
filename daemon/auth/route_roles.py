"""Role that each route requires: the one table. A route that is not in it is denied.

`authentication.py` identifies callers; `permits.py` applies their rights to jobs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from conf.schema.users import Role
from daemon.core.url_paths import CREATE, VERSION
from daemon.disk import file_delivery
from framework.providers.interface import VMS


@dataclass(frozen=True, slots=True)
class Rule:
    """Access rule of a route: the callers need that `role`.

    `open`: any caller, by any name of this host. `keyed`: any caller with a key of another kind, which the
    route itself checks, or a route for everybody. `by_id`: keyed, unless the caller authenticates.
    `in_body`: the token may be in the body. `about`: `job`, about the job named in the path, which its owner
    and operators may change, and see unless users see all; `jobs`: it shows everybody's jobs, and is for
    operators unless users see all. `lasting`: its answer goes on for as long as a client reads it.
    """

    role: Role
    entry: Literal["person", "open", "keyed", "by_id", "in_body", "denied"] = "person"
    about: Literal["", "job", "jobs"] = ""
    lasting: bool = False


_READ, _SUBMIT, _OPERATE, _ADMIN = Rule("read"), Rule("submit"), Rule("operate"), Rule("admin")
_OPEN, _KEYED = Rule("read", "open"), Rule("read", "keyed")
_READ_JOB, _CHANGE_JOB = Rule("read", about="job"), Rule("submit", about="job")
_ALL_JOBS = Rule("read", about="jobs")
#: By method and path, as the app has it.
TABLE: Mapping[tuple[str, str], Rule] = MappingProxyType(
    {
        ("GET", "/"): _KEYED,
        ("GET", "/docs"): _KEYED,
        ("GET", "/page/{name}"): _KEYED,
        ("POST", "/v1/session"): _KEYED,
        ("DELETE", "/v1/session"): _KEYED,
        ("GET", "/v1/stream"): Rule("read", lasting=True),
        ("GET", "/v1/timeline"): _ALL_JOBS,
        # Each caller gets the events of the cluster, and of the jobs that it may see.
        ("GET", "/v1/events"): _READ,
        ("GET", "/openapi.json"): _READ,
        ("GET", "/healthz"): _OPEN,
        ("GET", "/readyz"): _OPEN,
        ("GET", "/metrics"): _READ,
        ("GET", "/v1/jobs"): _READ,
        ("POST", "/v1/jobs"): _SUBMIT,
        ("POST", "/v1/jobs/dry-run"): _SUBMIT,
        ("GET", "/v1/jobs/{job_id}"): _READ_JOB,
        ("DELETE", "/v1/jobs/{job_id}"): _CHANGE_JOB,
        ("POST", "/v1/jobs/{job_id}/kill"): _CHANGE_JOB,
        # Of a group, each caller sees and ends the jobs that it may see and end.
        ("GET", "/v1/groups/{group}"): _READ,
        ("POST", "/v1/groups/{group}/kill"): _SUBMIT,
        ("POST", "/v1/jobs/{job_id}/decommission"): _CHANGE_JOB,
        ("GET", "/v1/jobs/{job_id}/explain"): _READ_JOB,
        ("GET", "/v1/jobs/{job_id}/logs"): _READ_JOB,
        ("GET", "/v1/jobs/{job_id}/ui"): _READ_JOB,
        ("GET", "/v1/jobs/{job_id}/ui/{path:path}"): _READ_JOB,
        ("GET", "/v1/files/{sha256}"): _SUBMIT,
        ("PUT", "/v1/files/{sha256}"): _SUBMIT,
        ("GET", file_delivery.PATH + "{job_id}/{key}/{name}"): _OPEN,
        ("POST", "/v1/applications"): _SUBMIT,
        ("PUT", "/v1/applications/{job_id}"): _KEYED,
        ("DELETE", "/v1/applications/{job_id}"): _KEYED,
        ("PUT", "/v1/applications/{job_id}/executors"): _KEYED,
        ("POST", "/v1/applications/{job_id}/release"): _KEYED,
        ("POST", "/v1/applications/{job_id}/heartbeat"): _KEYED,
        ("GET", "/v1/spark"): _READ,
        ("GET", "/v1/spark/{name}/stoker-backend.jar"): _KEYED,
        ("POST", VMS + "{lease:path}/notice"): _KEYED,
        ("GET", "/v1/cluster"): _READ,
        # Each caller gets a report on the jobs that it may see.
        ("GET", "/v1/audit"): _READ,
        ("GET", "/v1/bill"): _ALL_JOBS,
        ("GET", "/v1/bill/focus"): _ALL_JOBS,
        ("GET", "/v1/bill/today"): _ALL_JOBS,
        ("GET", "/v1/policies"): _READ,
        ("GET", "/v1/policy"): _READ,
        ("PUT", "/v1/policy"): _OPERATE,
        ("PUT", "/v1/policy/shadow"): _OPERATE,
        ("DELETE", "/v1/policy/shadow"): _OPERATE,
        ("GET", "/v1/policy/comparison"): _ALL_JOBS,
        ("POST", "/v1/policy/promotion"): _OPERATE,
        ("POST", "/v1/what-if"): _SUBMIT,
        ("GET", "/v1/queues"): _READ,
        ("GET", "/v1/queues/{path}"): _READ,
        ("PUT", "/v1/queues/{path}"): _ADMIN,
        ("PATCH", "/v1/queues/{path}"): _ADMIN,
        ("DELETE", "/v1/queues/{path}"): _ADMIN,
        ("GET", "/v1/webhooks"): _ADMIN,
        ("POST", "/v1/webhooks/{name}/test"): _ADMIN,
        ("GET", "/v1/me"): _READ,
        ("GET", "/v1/users"): _ADMIN,
        ("PUT", "/v1/users/{name}"): _ADMIN,
        ("DELETE", "/v1/users/{name}"): _ADMIN,
        ("POST", "/v1/users/{name}/tokens"): _ADMIN,
        # One's own; an admin may end others', see the route.
        ("DELETE", "/v1/tokens/{token}"): _READ,
        ("POST", CREATE): Rule("submit", "in_body"),
        ("GET", f"/{VERSION}/submissions/status/{{submission_id}}"): Rule("read", "by_id"),
        ("POST", f"/{VERSION}/submissions/kill/{{submission_id}}"): Rule("submit", "by_id"),
        ("POST", f"/{VERSION}/submissions/killall"): _OPERATE,
        ("POST", f"/{VERSION}/submissions/clear"): _OPERATE,
        **{
            (method, "/v{number:version}/submissions/{rest:path}"): _READ
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        },
    }
)

#: The rule for a path without a route: a caller with a known token learns that there is none.
_NOWHERE = _READ
#: The rule of a route without one in the table.
_DENIED = Rule("admin", "denied")
#: Below these, a caller without a token is told that there is nothing, and not asked for one.
_KEYED_BELOW = ("/page/", "/v1/applications/", "/v1/spark/", VMS, file_delivery.PATH)


class Permissions:
    """Which rule a request falls under."""

    def __init__(self, routes: Callable[[], Sequence[BaseRoute]]) -> None:
        """`routes` gives all of the app's."""
        self._routes = routes

    def rule(self, scope: Scope) -> Rule:
        """The rule of the route that will answer a request."""
        method, path = scope["method"], scope["path"]
        if (found := TABLE.get((method, path))) is not None:
            return found
        for route in self._routes():
            if route.matches(scope)[0] == Match.FULL:
                method = "GET" if method == "HEAD" else method
                return TABLE.get((method, getattr(route, "path", "")), _DENIED)
        return _KEYED if path.startswith(_KEYED_BELOW) else _NOWHERE
