"""Access control of one app: authentication, sessions and authorization, wired together."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from starlette.routing import BaseRoute

from conf.schema.users import UsersSection
from daemon.auth.authentication import Authenticator
from daemon.auth.authorization import Authorizer
from daemon.auth.route_roles import Permissions
from daemon.auth.sessions import Sessions
from daemon.auth.user_directory import Directory
from framework.host.request_guard import RequestGuard


@dataclass(frozen=True, slots=True)
class Access:
    """For one thread, the event loop's."""

    authenticator: Authenticator
    sessions: Sessions
    authorizer: Authorizer


def access_of(
    routes: Callable[[], Sequence[BaseRoute]],
    *,
    token: str | None,
    hosts: Collection[str],
    users: UsersSection | None,
    directory: Directory | None,
) -> Access:
    """Access by the config's token and by `users` of the directory.

    Without both, only requests for localhost, a loopback address or one of `hosts` are answered.
    """
    sessions = Sessions()
    authenticator = Authenticator(token, directory, None if users is None else users.header, sessions)
    guard = RequestGuard(hosts, any_name=authenticator.wants_somebody)
    see = "all" if users is None else users.see
    return Access(
        authenticator, sessions, Authorizer(guard, authenticator, Permissions(routes), directory, see)
    )
