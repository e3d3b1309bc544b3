"""Drivers' UIs behind the API, with a driver as hostile as a job's author can make it."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from daemon.core import url_paths
from daemon.core.errors import RejectedError
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.launch import spark_ui_proxy
from daemon.launch.spark_ui_proxy import SparkUi
from daemon.store.job_store import Store
from framework.spark import DriverUi
from tests.daemon.http.test_api import Api, submit
from tests.daemon.small_scheduler import SmallScheduler

Answer = Callable[[BaseHTTPRequestHandler], None]


class Driver:
    """An HTTP server that answers as the test says and records its requests."""

    def __init__(self) -> None:
        driver = self
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.answer: Answer = page(b"<a href='/v1/jobs/job-1/ui/jobs/'>jobs</a>")

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                driver.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
                driver.answer(self)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.ui = DriverUi("127.0.0.1", self._server.server_port, "its-own-key")
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()


def page(body: bytes, status: int = 200, **headers: str) -> Answer:
    """An answer."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in {"Content-Type": "text/html", **named}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return answer


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A driver's UI."""
    driver = Driver()
    yield driver
    driver.close()


@pytest.fixture
def scheduler(tmp_path: Path, driver: Driver) -> Iterator[SmallScheduler]:
    """A scheduler with that driver for job-1."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    scheduler = SmallScheduler(store)
    scheduler.shown_ui = driver.ui
    yield scheduler
    store.close()


@pytest.fixture
def api(scheduler: SmallScheduler) -> Api:
    """The API, with a token."""
    app = create_app(scheduler, scheduler.store, AppOptions(token="t0ken", version="1"))
    api = Api(app, authorization="Bearer t0ken", cookie="a=b")
    submit(api)
    return api


def test_pages_are_passed_on_without_what_is_ours(api: Api, driver: Driver) -> None:
    """The driver hears its own key, no token and no cookie; its page runs in a sandbox, without headers."""
    driver.answer = page(b"<p>jobs", Set_Cookie="x=y", Access_Control_Allow_Origin="*")
    response = api("GET", "/v1/jobs/job-1/ui/stages/stage/?id=1&attempt=0")
    assert (response.status_code, response.text) == (200, "<p>jobs")
    assert response.headers["content-type"] == "text/html"
    assert response.headers["content-security-policy"].startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in response.headers["content-security-policy"]
    assert "set-cookie" not in response.headers
    assert "access-control-allow-origin" not in response.headers
    ((path, headers),) = driver.asked
    assert path == "/stages/stage/?id=1&attempt=0"
    assert headers["x-forwarded-context"] == "/v1/jobs/job-1/ui"
    assert headers["authorization"] == "Bearer its-own-key"
    assert "cookie" not in headers


def test_what_a_redirect_brings_with_it_stays_behind(api: Api, driver: Driver) -> None:
    """No header of the driver's leads a browser anywhere, or keeps anything there."""
    brought = {
        "Refresh": "0; url=//evil/",
        "Content_Location": "/x",
        "Link": "</x>",
        "Set_Cookie": "a=b; Path=/",
    }
    for status in (302, 200):
        driver.answer = page(b"", status, **({"Location": "/jobs/"} if status == 302 else {}), **brought)
        response = api("GET", "/v1/jobs/job-1/ui/")
        assert response.status_code == status
        assert not set(response.headers) & {"refresh", "content-location", "link", "set-cookie"}


@pytest.mark.parametrize(
    ("kind", "passes"),
    [
        ("text/html;charset=utf-8", True),
        ("application/javascript", True),
        ("image/svg+xml", True),
        ("font/woff2", True),
        ('text/plain; charset="ISO-8859-1"', True),
        # Firefox sets the cookies that its parts bring.
        ("multipart/x-mixed-replace; boundary=x", False),
        ("Multipart/Mixed; boundary=x", False),
        ("text/html, multipart/x-mixed-replace; boundary=x", False),
        ("message/rfc822", False),
        ("text/html; boundary=x", False),
        ("", False),
    ],
)
def test_only_plain_content_types_pass(api: Api, driver: Driver, kind: str, passes: bool) -> None:
    """Types with parts carry headers past the proxy."""
    driver.answer = page(b"--x\r\nSet-Cookie: a=b\r\n\r\n", Content_Type=kind)
    found = api("GET", "/v1/jobs/job-1/ui/").headers["content-type"]
    assert found == (kind if passes else "application/octet-stream")


def test_nobody_asks_without_the_token(scheduler: SmallScheduler, driver: Driver) -> None:
    """As for everything else."""
    api = Api(create_app(scheduler, scheduler.store, AppOptions(token="t0ken", version="1")))
    assert api("GET", "/v1/jobs/job-1/ui/").status_code == 401
    assert driver.asked == []


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("SITE/jobs/", "/v1/jobs/job-1/ui/jobs/"),
        ("/jobs/?a=b", "/v1/jobs/job-1/ui/jobs/?a=b"),
        ("/v1/jobs/job-1/ui/jobs/", "/v1/jobs/job-1/ui/jobs/"),
        ("http://evil.example/", None),
        ("//evil.example/", None),
        ("/a b/%C3%A9/", "/v1/jobs/job-1/ui/a%20b/%C3%A9/"),
        ("///evil.example/", "/v1/jobs/job-1/ui/evil.example/"),
        ("/\\evil.example/", None),
        ("javascript:alert(1)", None),
        ("/../../v1/users", None),
        ("SITE/../../v1/users", None),
        ("/v1/jobs/job-1/ui/../../../users", None),
        ("/%2e%2e/%2E%2e/v1/users", None),
        ("/%252e%252e/v1/users", None),
        ("/..%2f..%2fv1/users", None),
        ("/..;x/v1/users", None),
        ("/..%5c..%5cv1/users", None),
        ("/.\t./v1/users", None),
        ("/. ./..%20/v1/users", None),
    ],
)
def test_redirects_lead_nowhere_else(api: Api, driver: Driver, location: str, leads_to: str | None) -> None:
    """To other pages of the same UI, or not at all."""
    driver.answer = page(b"", 302, Location=location.replace("SITE", f"http://127.0.0.1:{driver.ui.port}"))
    response = api("GET", "/v1/jobs/job-1/ui/")
    assert response.headers.get("location") == leads_to
    assert response.status_code == (302 if leads_to else 503)


KILLS = """
jobs/job/kill/?id=1 stages/stage/kill kill kill;x kill;x=1/ kill%3Bx a;b/kill ki%256cl ki%25256cl KILL %6bill
stages/stage%2Fkill stages/stage%252fkill/ stages%5Ckill stages//kill a/%2e/kill%20 kill%2e kill%09 kil%00l
%EF%BD%8Bill %5Ckill kill%3f app/kill/ driver/Kill
"""


def test_it_is_read_only(api: Api, driver: Driver) -> None:
    """Nothing is asked of a driver but pages, and none that ends something, however its path is written."""
    for path in KILLS.split():
        assert api("GET", f"/v1/jobs/job-1/ui/{path}").status_code == 403, path
    for path in ("a;b", "a/%2e%2e/b", "%252e%252e/b", "a%5Cb", "a%00", "%25u006bill", "a%250ab"):
        assert api("GET", f"/v1/jobs/job-1/ui/{path}").status_code == 400, path
    for method in ("POST", "PUT", "DELETE"):
        assert api(method, "/v1/jobs/job-1/ui/").status_code == 405
    assert driver.asked == []


def test_a_driver_that_says_too_much_or_too_little_is_a_503(
    api: Api, scheduler: SmallScheduler, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither fills the memory nor keeps anybody waiting for ever; other requests go on."""
    monkeypatch.setattr(spark_ui_proxy, "_PATIENCE", 0.5)

    def endless(request: BaseHTTPRequestHandler) -> None:
        page(b"")(request)
        while True:
            request.wfile.write(b"x" * 65536)

    def trickles(request: BaseHTTPRequestHandler) -> None:
        page(b"")(request)
        while True:
            request.wfile.write(b"x")
            time.sleep(0.05)

    for answer in (endless, trickles, page(b"oops", 500), page(b"\x1f\x8b", Content_Encoding="gzip")):
        driver.answer = answer
        response = api("GET", "/v1/jobs/job-1/ui/")
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        scheduler.shown_ui = DriverUi("127.0.0.1", silent.getsockname()[1], "key")
        assert api("GET", "/v1/jobs/job-1/ui/").status_code == 503


def test_where_there_is_none_it_is_said(api: Api, scheduler: SmallScheduler) -> None:
    """A job that waits or has ended, or is none."""
    scheduler.shown_ui = None
    assert "is queued" in api("GET", "/v1/jobs/job-1/ui/").json()["detail"]
    assert api("GET", "/v1/jobs/job-9/ui/").status_code == 404
    assert api("GET", "/v1/jobs/job-1").json()["ui"] is None
    assert api("GET", "/v1/jobs/job-1/ui").headers["location"] == "/v1/jobs/job-1/ui/"


def test_an_endless_row_of_answers_is_not_read(api: Api, driver: Driver) -> None:
    """A driver that answers with 1xx for ever kept the daemon busy, and with it everybody."""
    submit(api)

    def answer(request: BaseHTTPRequestHandler) -> None:
        with contextlib.suppress(OSError):
            for _ in range(1_000_000):
                request.wfile.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100)

    driver.answer = answer
    refused = api("GET", "/v1/jobs/job-1/ui/")
    assert (refused.status_code, refused.json()["detail"]) == (503, "it answers with HTTP 103")


def test_drivers_of_one_owner_keep_no_place_of_others(driver: Driver) -> None:
    """However long they let their visitors wait."""
    held = threading.Event()

    def wait(_: BaseHTTPRequestHandler) -> None:
        held.wait(60)

    async def ask() -> None:
        uis = SparkUi()
        driver.answer = wait
        waiting = [asyncio.ensure_future(uis.get(driver.ui, "/p", "x", "", "ann")) for _ in range(8)]
        while len(driver.asked) < len(waiting):
            await asyncio.sleep(0.01)
        with pytest.raises(RejectedError, match="8 requests to UIs of this owner's jobs are under way"):
            await uis.get(driver.ui, "/p", "x", "", "ann")
        driver.answer = page(b"seen")
        assert (await uis.get(driver.ui, "/p", "x", "", "bob")).body == b"seen"
        held.set()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(ask())


def test_a_path_that_is_encoded_thousands_of_times_holds_up_nobody(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each level undone takes as long as the path; a server that undoes more than some is none."""
    deep, decoded = f"%{'25' * 10_000}", list[str]()

    def counted(text: str) -> str:
        decoded.append(text)
        return unquote(text)

    monkeypatch.setattr(url_paths, "unquote", counted)
    assert not url_paths.names_segment(deep, "kill")
    assert len(decoded) < 10
    assert api("GET", f"/v1/jobs/job-1/ui/{deep}").status_code == 400
