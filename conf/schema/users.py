"""Permissions of users on a daemon: the config's section `users`, and the file of users it may name."""

from collections.abc import Mapping
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, ConfigDict, Field, field_validator

from conf.schema.fields import Strict, Text, like

#: What somebody may do; each role may do what those before it may.
Role = Literal["read", "submit", "operate", "admin"]
#: One of 16 hex digits could be the id of a token.
PERSON = r"(?![0-9a-f]{16}$)[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}"
PersonName = Annotated[
    str,
    Field(json_schema_extra={"pattern": f"^{PERSON}$"}),
    AfterValidator(
        like(
            PERSON,
            "should be a name of at most 64 letters, digits and . _ @ + -, with a letter or digit first",
        )
    ),
]
#: As `useradd` takes it, or a number.
UnixUser = Annotated[
    str,
    Field(max_length=32, json_schema_extra={"pattern": r"^([a-z_][a-z0-9_.-]*[$]?)?$"}),
    AfterValidator(like(r"([a-z_][a-z0-9_.-]*[$]?)?", "should be the name of a Unix user")),
]
QueuePath = Annotated[Text, Field(min_length=1, max_length=500)]
_HEADER = Annotated[
    str, AfterValidator(like(r"[A-Za-z][A-Za-z0-9-]{0,63}", "should be a header's name: X-Forwarded-User"))
]


def _network(value: Any) -> Any:
    """A network or an address; one that everybody is in says nothing."""
    if not isinstance(value, str):
        return value
    try:
        network = ip_network(value)
    except ValueError:
        raise ValueError("should be the address of the proxy or its network, such as 10.0.0.0/8") from None
    if network.prefixlen == 0:
        raise ValueError(
            "should be the proxy's own address or network: with this one every client would be trusted"
        )
    return network


class TrustedHeader(Strict):
    """A reverse proxy that names the user in a header, trusted from these addresses alone."""

    model_config = ConfigDict(populate_by_name=True)

    name: _HEADER = "X-Forwarded-User"
    """The header with the user's name."""
    proxies: Annotated[
        tuple[Annotated[IPv4Network | IPv6Network, BeforeValidator(_network)], ...],
        Field(strict=False, min_length=1, alias="from"),
    ]
    """Addresses and networks of the proxy."""
    role: Role = "submit"
    """Role of users that neither the store nor the file knows."""
    role_header: _HEADER | None = None
    """A header with the user's role."""


class UsersSection(Strict):
    """Users and permissions; the job store has the users that `stoker user` makes."""

    see: Literal["own", "all"] = "own"
    """Whether users see only their own jobs, or may read all jobs."""
    file: Text | None = None
    """A further file of users."""
    header: TrustedHeader | None = None
    """A proxy's header that authenticates users, instead of a token."""
    root: bool = False
    """Whether the Unix user of a user may be root."""


class TokenEntry(Strict):
    """A user's token in a file, as `stoker user token --for-file` prints it."""

    id: Annotated[str, AfterValidator(like(r"[0-9a-f]{16}", "should be a token's id: 16 hex digits"))]
    """Its id, which is part of the token."""
    sha256: Annotated[str, AfterValidator(like(r"[0-9a-f]{64}", "should be a token's SHA-256, in hex"))]
    """SHA-256 of the whole token."""
    expires: (
        Annotated[AwareDatetime, Field(strict=False), BeforeValidator(lambda given: _moment(given))] | None
    ) = None
    """When it expires, a time with its zone; null: never."""


def _moment(given: Any) -> Any:
    if isinstance(given, datetime):
        return given
    try:
        return datetime.fromisoformat(given)
    except (TypeError, ValueError):
        raise ValueError("should be a time with its zone, such as 2027-01-31T00:00:00+00:00") from None


class UserEntry(Strict):
    """A user in a file."""

    role: Role = "submit"
    """Role of this user."""
    unix_user: UnixUser = ""
    """The Unix user of this user's jobs; empty: the default one."""
    queues: Annotated[tuple[QueuePath, ...], Field(strict=False)] = ()
    """Queues into which this user may submit; empty: all."""
    tokens: Annotated[tuple[TokenEntry, ...], Field(strict=False)] = ()
    """The user's tokens."""


class UsersFile(Strict):
    """A file of users, by their names."""

    users: Mapping[PersonName, UserEntry] = {}
    """The users, by name."""

    @field_validator("users")
    @classmethod
    def _each_token_once(cls, users: Mapping[str, UserEntry]) -> Mapping[str, UserEntry]:
        seen: dict[str, str] = {}
        for name, user in users.items():
            for token in user.tokens:
                if token.id in seen:
                    raise ValueError(f"the token {token.id} belongs to both {seen[token.id]} and {name}")
                seen[token.id] = name
        return users
