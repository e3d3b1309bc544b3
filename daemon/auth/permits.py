"""A caller's permissions as routes check them: jobs to see, jobs to change, and owners of submitted jobs."""

import re
from collections.abc import Callable, Collection, Container
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel
from starlette.types import Scope

from conf.schema import JobSpec
from daemon.auth.route_roles import Rule
from daemon.core.errors import RejectedError
from daemon.core.identity import EVERYBODY, Person, Submitter
from environment.model.messages.records import JobRecord

#: Where an ASGI scope holds the permit; the gate puts it there once the caller is known.
PERMIT = "stoker.permit"
_SAFE = frozenset({"GET", "HEAD"})
_JOB = re.compile(r"\bjob-[1-9][0-9]*\b")
#: Fields of an answer that the daemon words, and that may name jobs; all others are shown as their users
#: wrote them.
WORDED = frozenset(
    [
        "reason",
        "next_step",
        "why",
        "message",
        "note",
        "to",
        "of",
        "given_up",
        "faults",
        "lacks",
        "provider",
        "no_estimate",
        "last_fault",
    ]
)
Shown = TypeVar("Shown", bound=BaseModel)


def no_unix_user(_: str) -> str:
    """Configured account for all jobs, where there are no users: empty."""
    return ""


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission of one person at one route. With `sees_all`, users may see everybody's jobs.

    `unix_user` returns the account that runs a user's jobs, by the user's name.
    """

    person: Person = EVERYBODY
    changes: bool = True
    sees_all: bool = True
    unix_user: Callable[[str], str] = field(default=no_unix_user, compare=False)

    def sees(self, owner: str) -> bool:
        """Whether jobs of this owner are shown at all."""
        return self.sees_all or self._rules(owner)

    def owners(self, asked: Collection[str]) -> Collection[str] | None:
        """Owners of the jobs to list, out of those asked for (empty: all); None: no jobs."""
        if not self.limited:
            return asked
        return (self.person.name,) if not asked or self.person.name in asked else None

    @property
    def limited(self) -> bool:
        """Whether there are jobs that are not shown."""
        return not (self.sees_all or self.person.may("operate"))

    def told(self, text: str, own: Container[str]) -> str:
        """Replace the ids of jobs in a text that are neither `own` nor visible to the person."""
        if not self.limited:
            return text
        return _JOB.sub(lambda found: found[0] if found[0] in own else "another job", text)

    def redacted(self, body: Shown, own: Container[str]) -> Shown:
        """Apply `told` to all texts in an answer that the daemon wrote, nested ones included."""
        if not self.limited:
            return body

        def told(value: Any, worded: bool) -> Any:
            if isinstance(value, str):
                return self.told(value, own) if worded else value
            if isinstance(value, list):
                return [told(each, worded) for each in value]
            within = isinstance(value, BaseModel) and not isinstance(value, JobSpec)
            return self.redacted(value, own) if within else value

        return body.model_copy(update={name: told(each, name in WORDED) for name, each in body})

    def ruled(self) -> Collection[str]:
        """Owners of the jobs that the person may change; empty: all."""
        return () if self.person.may("operate") else (self.person.name,)

    def check(self, record: JobRecord) -> None:
        """Raise RejectedError where the person may not use the route on this job."""
        owner, job_id = record.job.owner, record.job.id
        if not self.sees(owner):
            raise no_such_job(job_id)
        if self.changes and not self._rules(owner):
            whose = f"{owner}'s" if owner else "nobody's"
            detail = f"{job_id} is {whose}: {self.person.name} may read it, but not change it"
            raise RejectedError(403, "Not your job", detail)

    def admit(self, spec: JobSpec, login: str = "") -> tuple[JobSpec, Submitter]:
        """The submitted job with its owner, and its submitter; RejectedError for a forbidden owner or queue.

        `login` is the client's own user name: the owner where no users are configured and none is named.
        """
        person, said = self.person, spec.owner if "owner" in spec.model_fields_set else ""
        owner = said or person.name or login
        if person.name and owner != person.name and not person.may("operate"):
            detail = f"owner: {owner}: {person.name} submits jobs of their own; an operator may name others"
            raise RejectedError(403, "Not your name", detail)
        changed = {} if owner == spec.owner else {"owner": owner}
        if person.queues and not person.may("operate"):
            queue = spec.queue if "queue" in spec.model_fields_set else person.queues[0]
            if not any(f"{queue}.".startswith(f"{one}.") for one in person.queues):
                right = ", ".join(person.queues)
                raise RejectedError(
                    403, "Not your queue", f"queue: {queue}: {person.name} submits to {right}"
                )
            changed |= {} if queue == spec.queue else {"queue": queue}
        if changed:
            spec = spec.model_copy(update=changed)
        unix_user, raises = self.unix_user(owner), person.may("operate")
        return spec, Submitter(person.name, unix_user, sees_all=not self.limited, raises=raises)

    def key(self, given: str | None) -> str | None:
        """An idempotency key as the store knows it: each user's are their own."""
        # No name has a blank, and no key that a header can have.
        return given if given is None or not self.person.name else f"{self.person.name} {given}"

    def _rules(self, owner: str) -> bool:
        return self.person.may("operate") or (bool(owner) and owner == self.person.name)


#: The permit of a caller that is not asked who it is: it sees no job.
STRANGER = Permit(Person("", "read"), sees_all=False)


def no_such_job(job_id: str) -> RejectedError:
    """Answer for a job that does not exist, or that the caller may not see."""
    return RejectedError(404, "No such job", f"there is no job {job_id}")


def permit_of(asked: Request | Scope) -> Permit:
    """The caller's permit; KeyError at a route that asks for no identity."""
    scope: Scope = asked.scope if isinstance(asked, Request) else asked
    found: Permit = scope[PERMIT]
    return found


def changes(method: str, rule: Rule) -> bool:
    """Whether a route changes its subject."""
    return rule.about == "job" and method not in _SAFE
