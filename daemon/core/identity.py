"""Who asks: a person with a role, as the rest of the daemon sees one. By what they are known is elsewhere."""

import hashlib
from dataclasses import dataclass
from typing import get_args

from conf.schema.users import Role
from daemon.core.tokens import TokenRecord

ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a role; without a name it is nobody in particular, whose jobs have the owner they say.

    `unix_user` is whom their jobs run as (empty: as the config says), `queues` are the only ones to which
    they submit (none: to all that take their jobs).
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
    """What is kept of a user, and of the user's tokens; `made_at` is seconds since the epoch."""

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


#: Whoever asks where no users are configured, and whoever has the config's own token.
EVERYBODY = Person("", "admin")


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who submits a job: the name by which what they sent is known, and whom the job runs as.

    Without `sees_all`, jobs that are not their own are not there for them; without `raises`, their jobs have
    no higher priority than their queue's.
    """

    name: str = ""
    unix_user: str = ""
    sees_all: bool = True
    raises: bool = True


#: Whoever submits where no users are configured.
NOBODY = Submitter()


def stored_name(sha256: str, user: str) -> str:
    """What a file of a user's with that hash is called here; of nobody's in particular, as its hash."""
    return hashlib.sha256(f"{user}/{sha256}".encode()).hexdigest() if user else sha256
