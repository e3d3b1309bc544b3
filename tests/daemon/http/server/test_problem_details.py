"""Problems that depend on no route: where a request is sent on to."""

import anyio
import httpx
import pytest
from fastapi import FastAPI

from daemon.core.errors import ElsewhereError
from daemon.http.server.problem_details import handle_problems


@pytest.mark.parametrize(
    ("asked", "leads_to"),
    [
        ("/v1/jobs?limit=3", "/v1/jobs?limit=3"),
        ("/v1/a%3Fb%23c", "/v1/a%3Fb%23c"),
        ("/v1/%E2%82%AC%20", "/v1/%E2%82%AC%20"),
        ("/v1/x%0d%0aSet-Cookie:%20a=b", "/v1/x%0D%0ASet-Cookie:%20a=b"),
        ("/%2F%2Fevil.example/", "///evil.example/"),
        ("/%5Cevil.example", "/%5Cevil.example"),
    ],
)
def test_the_leader_is_asked_for_the_same_path(asked: str, leads_to: str) -> None:
    """As it was asked for; nothing of it becomes a header, a query or another host."""
    app = FastAPI()
    handle_problems(app)

    @app.get("/v1/{name}")
    @app.get("/{path:path}")
    def _() -> None:
        raise ElsewhereError("http://leader:1")

    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://h") as client:
            return await client.get(asked)

    found = anyio.run(answer)
    assert (found.status_code, found.headers["location"]) == (307, f"http://leader:1{leads_to}")
