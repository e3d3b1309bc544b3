"""A page of jobs: the API's answer, a dictionary, over the jobs of which a program goes at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Literal, overload

    from stoker.answers import Job


class JobPage(dict[str, Any]):
    """The answer of /v1/jobs: `page["jobs"]`, `page["next"]`; `for job in page` goes over its jobs."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, key: Literal["jobs"], /) -> list[Job]: ...
        @overload
        def __getitem__(self, key: Literal["next"], /) -> str | None: ...
        def __getitem__(self, key: str, /) -> Any: ...

    def __iter__(self) -> Iterator[Job]:  # type: ignore[override]
        """Its jobs, the newest first; those of other pages are asked for with `before=page["next"]`."""
        return iter(super().__getitem__("jobs"))
