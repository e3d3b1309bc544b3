"""Errors that become HTTP responses: a rejected request, a request for the leader."""

from collections.abc import Mapping

from conf.errors import ReportedError


class RejectedError(ReportedError):
    """A rejected request: an HTTP status of the 4xx or 5xx kind, and the valid form."""

    def __init__(
        self, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.headers = headers
        self.status = status
        self.title = title
        self.detail = detail


class ElsewhereError(RejectedError):
    """Another daemon leads and is to be asked; `leader` is its URL, empty while none is known to lead."""

    def __init__(self, leader: str) -> None:
        detail = f"this daemon is a standby: ask the leader, {leader}"
        if not leader:
            detail = "this daemon waits, and no daemon leads now; one will within seconds"
        super().__init__(307 if leader else 503, "Another daemon leads" if leader else "No leader", detail)
        self.leader = leader
