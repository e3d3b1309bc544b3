"""A stream ends with the token, user, role or session that admitted it."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from conf.loader import build
from conf.schema.users import UsersSection
from daemon.auth.route_roles import TABLE
from daemon.auth.user_directory import Directory
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.store.job_store import Store
from tests.daemon.page.crowd import Crowd, served


class Listener:
    """A daemon with users, and user ann listening to its stream."""

    def __init__(self, url: str, directory: Directory, clock: list[float]) -> None:
        self.url, self.directory, self.clock = url, directory, clock
        self.directory.put("ann", "submit", None, None)
        self.token, record = directory.make_token("ann", 2000.0)
        self.token_id = record.id
        self.client = httpx.Client(trust_env=False, timeout=60, base_url=url)

    def bearer(self, token: str | None = None) -> dict[str, str]:
        """The header that shows a token, ann's unless given."""
        return {"Authorization": f"Bearer {token or self.token}"}

    def begin_session(self) -> None:
        """Have the client show a cookie from now on."""
        self.client.post("/v1/session", json={"token": self.token}).raise_for_status()


@pytest.fixture
def ann(tmp_path: Path) -> Iterator[Listener]:
    """Ann's listener, on a daemon with a clock set by the test."""
    store, clock = Store(f"sqlite:///{tmp_path / 'stoker.db'}"), [1000.0]
    directory = Directory(store.users, now=lambda: clock[0])
    header = {"from": ["127.0.0.1"], "role_header": "X-Forwarded-Role"}
    section = build(UsersSection, {"see": "own", "header": header}, "config")
    crowd = Crowd(store, 2, 3)
    app = create_app(crowd, store, AppOptions(token="t0ken", version="1", users=section, directory=directory))
    with served(app) as url:
        listener = Listener(url, directory, clock)
        yield listener
        listener.client.close()
    directory.close()
    store.close()


@contextmanager
def listening(ann: Listener, headers: dict[str, str]) -> Iterator[Iterator[str]]:
    """The lines of a stream that has told all there is."""
    with ann.client.stream("GET", "/v1/stream", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        lines = answer.iter_lines()
        for line in lines:
            if line == "event: whole":
                break
        yield lines


@pytest.mark.parametrize(
    "end",
    [
        lambda ann: ann.directory.end_token(ann.token_id),
        lambda ann: ann.directory.end_user("ann"),
        lambda ann: ann.directory.put("ann", "read", None, None),
        lambda ann: ann.directory.put("ann", "admin", None, None),
        lambda ann: ann.directory.put("ann", None, None, ("etl",)),
        lambda ann: ann.clock.__setitem__(0, 2001.0),
    ],
    ids=["token", "user", "less", "more", "queues", "expired"],
)
@pytest.mark.parametrize("by", ["token", "session"])
def test_a_stream_ends_with_what_let_it_in(ann: Listener, end: Callable[[Listener], object], by: str) -> None:
    """A stream ends once its user's rights change; a new request is answered by the new rights."""
    if by == "session":
        ann.begin_session()
    with listening(ann, ann.bearer() if by == "token" else {}) as lines:
        end(ann)
        left = list(lines)
    assert not any(line.startswith("event: ") for line in left[2:]), left


def test_a_stream_ends_with_its_session(ann: Listener) -> None:
    """The cookie's, when somebody ends it on another page."""
    ann.begin_session()
    with listening(ann, {}) as lines:
        gone = httpx.delete(
            f"{ann.url}/v1/session", cookies=ann.client.cookies, headers={"Origin": ann.url}, trust_env=False
        )
        assert gone.status_code == 204, gone.text
        list(lines)
    assert ann.client.get("/v1/stream").status_code == 401


def test_a_stream_by_a_proxy_ends_with_its_user(ann: Listener) -> None:
    """A stream through a proxy ends with its user: the proxy names the user, the directory the role."""
    with listening(ann, {"X-Forwarded-User": "ann"}) as lines:
        ann.directory.put("ann", "read", None, None)
        list(lines)


def test_others_hear_on(ann: Listener) -> None:
    """The end of one stream ends no other, and an ended token does not count as a wrong one."""
    ann.directory.put("bob", "submit", None, None)
    bob, _ = ann.directory.make_token("bob", None)
    for headers in (ann.bearer(bob), ann.bearer("t0ken"), {"X-Forwarded-User": "carl"}):
        with listening(ann, headers) as lines:
            ann.directory.put("ann", "read" if "bob" in json.dumps(headers) else "submit", None, None)
            began = time.monotonic()
            for line in lines:  # a change each few seconds, permissions are looked at each half a second
                if line == "event: change" and time.monotonic() > began + 2.0:
                    break
            else:
                pytest.fail(f"the stream has ended: {headers}")
    ann.directory.end_token(ann.token_id)
    assert "stoker_wrong_tokens_total 0" in ann.client.get("/metrics", headers=ann.bearer("t0ken")).text


def test_each_answer_that_goes_on_is_one_that_ends() -> None:
    """A stream that is added to the API says in the table of permissions that it is one."""
    source = "".join(path.read_text() for path in Path("daemon").rglob("*.py"))
    assert source.count("StreamingResponse(") == sum(rule.lasting for rule in TABLE.values()) == 1
    assert "websocket" not in source
