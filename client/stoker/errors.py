"""Errors between a program and the daemon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.characters import visible


class StokerError(Exception):
    """Anything that goes wrong with the daemon or on the way to it; its text is fit for a user."""


class UnreachableError(StokerError):
    """Nobody answers; `sent` says whether the request may have arrived all the same."""

    def __init__(self, text: str, *, sent: bool = False) -> None:
        super().__init__(text)
        self.sent = sent


class ProblemError(StokerError):
    """The daemon answers with a problem (RFC 9457): status, title, detail and the fields that are wrong."""

    #: What a user can do, behind the detail.
    hint = ""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`errors` are the errors of single fields: `field`, `message`."""
        said = [f"{entry.get('field')}: {entry.get('message')}" for entry in errors]
        left = [text for text in said if text.partition(": ")[2] not in detail]
        super().__init__(visible("\n".join([(detail or title) + self.hint, *left])))
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})


class NotFoundError(ProblemError):
    """There is no such job, executor, file or route."""


class UnauthorizedError(ProblemError):
    """The daemon wants a token, or another one."""

    hint = "; give --token-file or STOKER_TOKEN_FILE"


class JobFailedError(StokerError):
    """A job that was waited for has not finished; `job` is the API's answer about it."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        super().__init__(visible(f"{job['id']} ({job['name']}) {job['state']}: {job['reason']}"))
        self.job = job
