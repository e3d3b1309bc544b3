"""The routes that create, list and end users and their tokens, and that show the requesting user."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

from fastapi import FastAPI, Path, Request, Response
from pydantic import ConfigDict, Field

from conf.schema.documented_model import DocumentedModel
from conf.schema.users import PersonName, QueuePath, Role, UnixUser, UsersSection
from conf.units import SECONDS_PER_DAY
from daemon.auth.audit_log import WHO
from daemon.auth.permits import permit_of
from daemon.auth.user_directory import Directory
from daemon.core.errors import RejectedError
from daemon.core.identity import UserRecord
from daemon.schemas.base import Body, Said

UserName = Annotated[PersonName, Path(description="The user's name.")]
TokenId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", description="The token's id.")]


class _LoginBody(DocumentedModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UserChange(_LoginBody):
    """Settings of a user; null ones stay, or are the defaults for a new user."""

    role: Role | None = None
    """Role; for a new user submit by default."""
    unix_user: UnixUser | None = None
    """Unix user of their jobs; empty: as in the config."""
    queues: Annotated[tuple[QueuePath, ...], Field(max_length=1000)] | None = None
    """The only queues that they may submit to; none: all that accept their jobs."""


class TokenWish(_LoginBody):
    """Request for a token."""

    seconds: Annotated[float | None, Field(gt=0, le=36_500 * SECONDS_PER_DAY, allow_inf_nan=False)] = None
    """Lifetime in seconds; null: unlimited."""


class TokenBody(Body):
    """Record of a token."""

    id: str
    """The id to revoke it by, which is a part of the token."""
    made_at: float | None
    """Time of creation, seconds since the epoch; null for entries of the file."""
    expires_at: float | None
    """Its expiry, seconds since the epoch; null: never."""
    used_on: str | None
    """The last day (UTC, 2026-11-22) on which it was used; null: never used."""


class UserBody(Body):
    """A user."""

    name: Said
    """The name that their jobs belong to."""
    role: Role
    """Role of the user."""
    unix_user: Said
    """Unix user of their jobs; empty: as in the config."""
    queues: list[Said]
    """The only queues that they may submit to; empty: all that accept their jobs."""
    source: Literal["file", "store"]
    """Place of the definition; only users of the store can be changed here."""
    made_at: float | None
    """Time of creation, seconds since the epoch; null for entries of the file."""
    tokens: list[TokenBody]
    """Their tokens."""


class UserList(Body):
    """The users."""

    users: list[UserBody]
    """Users in the order of their names."""


class MadeTokenBody(Body):
    """A new token."""

    user: Said
    """The token's user."""
    id: str
    """The id to revoke it by."""
    token: str = Field(repr=False)
    """The token, which is returned only once."""
    expires_at: float | None
    """Its expiry, seconds since the epoch; null: never."""


class MeBody(Body):
    """The requesting user."""

    name: Said
    """The user; empty for the daemon's own token, or where no users are configured."""
    role: Role
    """Role of the user."""
    unix_user: Said
    """Unix user of their jobs; empty: as in the config."""
    queues: list[Said]
    """The only queues that they may submit to; empty: all that accept their jobs."""
    token: str
    """The id of the token used to authenticate; empty for other ways."""
    sees: Literal["own", "all"]
    """Jobs that they may read."""


def add_users(
    app: FastAPI,
    directory: Directory | None,
    section: UsersSection | None,
    check_queues: Callable[[Sequence[str]], None],
) -> None:
    """Add the routes; where no users are configured, they answer that.

    `check_queues` raises RejectedError for a path that is no queue.
    """

    def known() -> Directory:
        if directory is None or section is None:
            detail = "no users are configured: add `users: {}` to the daemon's config to begin with"
            raise RejectedError(409, "No users", detail)
        return directory

    def found(name: str) -> UserBody:
        return next(_body(*each) for each in known().all() if each[0].name == name)

    @app.get("/v1/me")
    def me(request: Request) -> MeBody:
        """Show the requesting user, as the daemon knows it."""
        permit, (_, token) = permit_of(request), request.scope.get(WHO, ("", ""))
        person = permit.person
        sees: Literal["own", "all"] = "all" if permit.sees_all or person.may("operate") else "own"
        return MeBody(
            name=person.name,
            role=person.role,
            unix_user=person.unix_user,
            queues=list(person.queues),
            token=token,
            sees=sees,
        )

    @app.get("/v1/users")
    def users() -> UserList:
        """List the users, with the records of their tokens."""
        return UserList(users=[_body(*each) for each in known().all()])

    @app.put("/v1/users/{name}", responses={201: {"model": UserBody, "description": "They are new"}})
    def put_user(name: UserName, asked: UserChange, response: Response) -> UserBody:
        """Create or change a user, with effect at once."""
        if asked.queues:
            check_queues(asked.queues)
        response.status_code = 201 if known().put(name, asked.role, asked.unix_user, asked.queues) else 200
        return found(name)

    @app.delete("/v1/users/{name}")
    def end_user(name: UserName) -> UserList:
        """Revoke a user with all their tokens, at once. Jobs continue. Returns the other users."""
        known().end_user(name)
        return users()

    @app.post("/v1/users/{name}/tokens", status_code=201)
    def make_token(name: UserName, asked: TokenWish) -> MadeTokenBody:
        """Create a token for a user; it is returned only once."""
        expires_at = None if asked.seconds is None else time.time() + asked.seconds
        token, record = known().make_token(name, expires_at)
        return MadeTokenBody(user=name, id=record.id, token=token, expires_at=record.expires_at)

    @app.delete("/v1/tokens/{token}")
    def end_token(request: Request, token: TokenId) -> UserBody:
        """Revoke a token at once: one's own, or as an admin any user's. Returns its user."""
        person = permit_of(request).person
        if not person.may("admin") and known().owner_of(token) != person.name:
            raise RejectedError(404, "No such token", f"{person.name} has no token {token}")
        return found(known().end_token(token))


def _body(user: UserRecord, source: Literal["file", "store"], uses: Mapping[str, str]) -> UserBody:
    return UserBody(
        name=user.name,
        role=user.role,
        unix_user=user.unix_user,
        queues=list(user.queues),
        source=source,
        made_at=user.made_at,
        tokens=[
            TokenBody(id=one.id, made_at=one.made_at, expires_at=one.expires_at, used_on=uses.get(one.id))
            for one in user.tokens
        ],
    )
