"""A page of jobs: the API's answer, a dictionary, over the jobs of which a program goes at once."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal, overload

    from stoker.answers import Job


class JobPage(dict[str, Any]):
    """The answer of /v1/jobs: `page["jobs"]`, `page["next"]`; `for job in page` goes over all jobs.

    Further pages are fetched as they are needed, unless the caller gave a limit.
    """

    #: Fetches the next page, or is awaited for it; None where there is none, or none is wanted.
    more: Callable[[], Any] | None = None

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, key: Literal["jobs"], /) -> list[Job]: ...
        @overload
        def __getitem__(self, key: Literal["next"], /) -> str | None: ...
        def __getitem__(self, key: str, /) -> Any: ...

    def __iter__(self) -> Iterator[Job]:  # type: ignore[override]
        """The jobs of this page and of those behind it; TypeError when further ones have to be awaited."""
        page = self
        yield from page["jobs"]
        while page.more is not None:
            if inspect.iscoroutinefunction(page.more):
                raise TypeError("there are more jobs: use `async for job in await client.jobs()`")
            page = page.more()
            yield from page["jobs"]

    async def __aiter__(self) -> AsyncIterator[Job]:
        """As `for`, of a page of AsyncStoker."""
        page = self
        for job in page["jobs"]:
            yield job
        while page.more is not None:
            page = await page.more()
            for job in page["jobs"]:
                yield job
