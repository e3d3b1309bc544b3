"""A daemon with users, in this process, and its answers to each of them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx
from fastapi import FastAPI

from conf.loader import build
from conf.schema.users import UsersSection
from daemon.auth.audit_log import Audit
from daemon.auth.user_directory import Directory
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.store.job_store import Store
from tests.daemon.small_scheduler import SmallScheduler

#: The address of the proxy that is trusted.
PROXY = "10.1.2.3"
ROLES = {"reader": "read", "ann": "submit", "bob": "submit", "oper": "operate", "admin": "admin"}
#: What becomes of a request.
Outcome = Literal["served", "unknown", "forbidden", "hidden"]


@dataclass
class House:
    """A daemon with users: its app, and the headers by which each person asks."""

    app: FastAPI
    people: dict[str, dict[str, str]]
    directory: Directory
    scheduler: SmallScheduler
    clock: list[float] = field(default_factory=lambda: [2000.0])
    asked: int = 0

    def __call__(
        self, who: str, method: str, path: str, peer: str = "10.9.0.1", **more: Any
    ) -> httpx.Response:
        """Send a request as one user and return the response."""
        return anyio.run(lambda: self.answer(who, method, path, peer, **more))

    async def answer(self, who: str, method: str, path: str, peer: str, **more: Any) -> httpx.Response:
        """The same, within an event loop."""
        transport = httpx.ASGITransport(self.app, client=(peer, 1))
        headers = self.people[who] | more.pop("headers", {})
        async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
            return await client.request(method, path, headers=headers, **more)

    async def outcome(self, who: str, method: str, path: str, body: Any) -> Outcome:
        """Send a request as one user and return its outcome."""
        self.asked += 1  # wrong tokens come from another address each time, so that nobody has to wait
        peer = PROXY if who == "proxied" else f"10.9.{self.asked >> 8}.{self.asked & 255}"
        sent = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
        query = {"size": "1"} if isinstance(body, bytes) else {}
        answer = await self.answer(who, method, path, peer, params=query, **sent)
        text = answer.text
        assert answer.status_code not in (405, 415, 429, 500), (who, method, path, text)
        if answer.status_code == 401:
            return "unknown"
        if answer.status_code == 403:
            return "forbidden"
        return "hidden" if answer.status_code == 404 and "there is no job" in text else "served"


@contextmanager
def house_of(
    store: Store,
    see: str = "own",
    file: Path | None = None,
    audit: Audit | None = None,
    data_dir: Path | None = None,
) -> Iterator[House]:
    """One with a user of each role, and those of the file."""
    header = {"from": ["10.1.0.0/16"], "role_header": "X-Forwarded-Role"}
    section = build(UsersSection, {"see": see, "header": header}, "config")
    clock = [1000.0]
    with closing(Directory(store.users, file, now=lambda: clock[0])) as directory:
        people: dict[str, dict[str, str]] = {
            "nobody": {},
            "bad": {"Authorization": f"Bearer stoker_{'0' * 16}_{'x' * 43}"},
            "forged": {"X-Forwarded-User": "admin"},
            "proxied": {"X-Forwarded-User": "ann"},
            "config": {"Authorization": "Bearer t0ken"},
        }
        for name, role in {**ROLES, "expired": "admin"}.items():
            directory.put(name, role, None, None)  # type: ignore[arg-type]
            token, _ = directory.make_token(name, 1001.0 if name == "expired" else None)
            people[name] = {"Authorization": f"Bearer {token}"}
        clock[0] = 2000.0
        scheduler = SmallScheduler(store)
        app = create_app(
            scheduler,
            store,
            AppOptions(
                token="t0ken",
                version="1",
                users=section,
                directory=directory,
                audit=audit,
                data_dir=data_dir,
            ),
        )
        yield House(app, people, directory, scheduler, clock)
