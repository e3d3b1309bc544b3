"""Identity of a caller: a person with a role. The proof of identity is elsewhere."""

import hashlib
from dataclasses import dataclass
from typing import get_args

from conf.schema.users import Role
from daemon.core.tokens import TokenRecord

ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class Person:
    """A person with a role; one without a name is anonymous, and its jobs have the owner that they name.

    `unix_user` is the account that runs their jobs (empty: as configured), `queues` are the only ones to
    which they may submit (empty: any that accepts their jobs).
    """

    name: str
    role: Role
    unix_user: str = ""
    queues: tuple[str, ...] = ()

    def may(self, role: Role) -> bool:
        """Whether that may be done for which this role is asked."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True, slots=True)
class UserRecord:
    """Stored record of a user and of the user's tokens; `made_at` is seconds since the epoch."""

    name: str
    role: Role
    unix_user: str = ""
    queues: tuple[str, ...] = ()
    tokens: tuple[TokenRecord, ...] = ()
    made_at: float | None = None

    @property
    def person(self) -> Person:
        """The user, as the rest of the daemon sees one."""
        return Person(self.name, self.role, self.unix_user, self.queues)


#: The caller where no users are configured, and every caller with the config's own token.
EVERYBODY = Person("", "admin")


@dataclass(frozen=True, slots=True)
class Submitter:
    """Submitter of a job: the name under which their uploads are stored, and the account that runs the job.

    Without `sees_all`, jobs of others do not exist for them; without `raises`, their jobs have no higher
    priority than their queue's.
    """

    name: str = ""
    unix_user: str = ""
    sees_all: bool = True
    raises: bool = True


#: The submitter where no users are configured.
NOBODY = Submitter()


def stored_name(sha256: str, user: str) -> str:
    """Name in the uploads folder of a user's file with that hash; the hash itself without a user.

    A user's files have the user's mark in front, by which they are counted.
    """
    if not user:
        return sha256
    return f"{mark_of(user)}-{hashlib.sha256(f'{user}/{sha256}'.encode()).hexdigest()}"


def stored_names(sha256: str, owner: str) -> tuple[str, ...]:
    """Names that a file of an owner's job may have: its own, that of earlier versions, and without a user."""
    earlier = hashlib.sha256(f"{owner}/{sha256}".encode()).hexdigest()
    return (stored_name(sha256, owner), earlier, sha256) if owner else (sha256,)


def mark_of(user: str) -> str:
    """The mark of a user's files; empty without a user."""
    return hashlib.sha256(user.encode()).hexdigest()[:16] if user else ""
