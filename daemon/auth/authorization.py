"""The gate's checks of each request: its rule, its caller, and the caller's permission."""

from collections.abc import Mapping
from typing import Literal

from starlette.types import Scope

from daemon.auth.authentication import Authenticator, Visitor
from daemon.auth.permits import PERMIT, Permit, changes, no_unix_user
from daemon.auth.route_roles import Permissions, Rule
from daemon.auth.sessions import forged
from daemon.auth.user_directory import Directory
from framework.host.request_guard import Denial, RequestGuard
from framework.spark.submit_properties import TOKEN


class Authorizer:
    """Guard, doorkeeper and permissions together. For one thread, the event loop's."""

    def __init__(
        self,
        guard: RequestGuard,
        doorkeeper: Authenticator,
        permissions: Permissions,
        directory: Directory | None = None,
        see: Literal["own", "all"] = "all",
    ) -> None:
        """`see`: whether users see everybody's jobs."""
        self._guard, self._doorkeeper, self._permissions = guard, doorkeeper, permissions
        self._unix_user = no_unix_user if directory is None else directory.unix_user
        self._sees_all = see == "all"

    @property
    def wants_somebody(self) -> bool:
        """Whether anonymous callers are rejected."""
        return self._doorkeeper.wants_somebody

    def rule(self, scope: Scope) -> Rule:
        """The rule that the request falls under."""
        return self._permissions.rule(scope)

    def visitor(
        self, rule: Rule, method: str, headers: Mapping[str, str], peer: str
    ) -> Visitor | Denial | None:
        """The authenticated caller, or the refusal; None where the rule asks for no identity (yet).

        Names of headers are in lower case, repeated headers' values are joined by a comma.
        """
        if rule.entry == "open":
            return None
        if (denial := self._guard.denial(method, headers)) is not None:
            return denial
        says = "authorization" in headers or self._doorkeeper.proxied(headers, peer)
        if rule.entry == "keyed" or (rule.entry in ("by_id", "in_body") and not says):
            return None if self.wants_somebody else self._doorkeeper.who(headers, peer)
        found = self._doorkeeper.who(headers, peer)
        if isinstance(found, Visitor) and found.by_cookie:
            return forged(method, headers) or found
        return found

    def stands(self, rule: Rule, visitor: Visitor | Denial | None, headers: Mapping[str, str]) -> bool:
        """Whether the client that was let in as this visitor would be let in as the same now."""
        if not isinstance(visitor, Visitor):
            return rule.entry == "open"
        return self._doorkeeper.stands(visitor, headers)

    def in_body(self, token: str | None, peer: str) -> Visitor | Denial:
        """Authenticate a token sent in a body; a denial when there is none."""
        if token is None:
            return Denial(
                401, f"this daemon wants its token: write {TOKEN} into a file for --properties-file"
            )
        otherwise = f"{TOKEN} is not the token that this daemon was given"
        return self._doorkeeper.by_token(token, peer, otherwise)

    def permit(self, rule: Rule, visitor: Visitor, scope: Scope) -> Denial | None:
        """Why the caller is forbidden to use the route; None after putting the permit into the scope."""
        person = visitor.person
        if rule.entry == "denied":
            return Denial(403, "this route is missing in the table of roles, so it is denied")
        if not person.may(rule.role):
            return Denial(403, f"this is for the role {rule.role}; {person.name} has the role {person.role}")
        if rule.about == "jobs" and not (self._sees_all or person.may("operate")):
            return Denial(
                403, ("this shows all users' jobs, and requires the role operate here (users.see: own)")
            )
        scope[PERMIT] = Permit(person, changes(scope["method"], rule), self._sees_all, self._unix_user)
        return None
