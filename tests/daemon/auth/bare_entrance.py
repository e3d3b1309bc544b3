"""The gate's entrance without an app behind it: its routes are those of the table."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import daemon.http.routes.spark.spark_rest  # noqa: F401  it registers how versions stand in paths
from daemon.auth.authentication import Authenticator
from daemon.auth.authorization import Authorizer
from daemon.auth.route_roles import TABLE, Permissions
from framework.host.request_guard import RequestGuard


def bare_entrance(token: str | None = None) -> Authorizer:
    """The entrance of a daemon with that token, and without users."""

    async def nothing(_: Request) -> Response:
        raise AssertionError

    routes = [Route(path, nothing, methods=[method]) for method, path in TABLE]
    guard = RequestGuard(any_name=token is not None)
    return Authorizer(guard, Authenticator(token), Permissions(lambda: routes))
