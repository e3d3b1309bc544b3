"""The address that a browser can use for a job's Spark UI."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from stoker import StokerError
from stoker.flows import Flow, Request

from daemon.cli.jobs.spark_ui import Forwarder
from tests.daemon.cli.conftest import Daemon

Capture = pytest.CaptureFixture[str]

TOP = "/v1/jobs/job-1/ui/"


class Api:
    """Answers as the daemon's API would, with the token that it was given."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def run(self, flow: Flow[httpx.Response]) -> httpx.Response:
        """The response to the flow's only request, by the name of the page."""
        step = next(flow)
        assert isinstance(step, Request)
        self.asked.append(step.path)
        name = step.path.removeprefix(TOP)
        if name == "gone":
            raise StokerError("no daemon answers")
        if name in ("", "away"):
            place = "http://elsewhere.example/" if name else f"{TOP}jobs/"
            return httpx.Response(302, headers={"Location": place})
        return httpx.Response(404 if name == "nothing" else 200, html=f"<p>{name}</p>")


@pytest.fixture
def api() -> Api:
    """See `Api`."""
    return Api()


@pytest.fixture
def forwarder(api: Api) -> Iterator[Forwarder]:
    """A site with the UI of job-1."""
    client: Any = api
    with Forwarder(client, TOP) as forwarder:
        yield forwarder


@pytest.fixture
def browser(forwarder: Forwarder) -> Iterator[httpx.Client]:
    """Keeps cookies and follows redirects, as a browser does."""
    with httpx.Client(base_url=site(forwarder), follow_redirects=True, trust_env=False) as browser:
        yield browser


def site(forwarder: Forwarder) -> str:
    """Its address without the key."""
    return forwarder.url.rsplit("/", 2)[0]


def test_whoever_knows_the_address_sees_the_ui(forwarder: Forwarder, browser: httpx.Client) -> None:
    """It leads to the UI's first page, or to the one that is named behind it; then the key is in a cookie."""
    first = browser.get(forwarder.url)
    assert (first.url.path, first.text) == (f"{TOP}jobs/", "<p>jobs/</p>")
    assert browser.get(f"{forwarder.url}stages/stage/?id=0").text == "<p>stages/stage/?id=0</p>"
    assert browser.get(f"{TOP}nothing").status_code == 404
    assert "frame-ancestors 'none'" in first.headers["Content-Security-Policy"]


def test_nobody_else_does(forwarder: Forwarder, browser: httpx.Client, api: Api) -> None:
    """Neither without the key, nor with another one, nor by a name that a page elsewhere could have."""
    address = site(forwarder)
    key = forwarder.url.split("/")[3]
    for path in (TOP, "/", f"/{key[:-1]}/", f"/{key}x/", f"{TOP}jobs/?{key}"):
        assert httpx.get(address + path, trust_env=False).status_code == 403, path
    assert httpx.get(address + TOP, headers={"Cookie": f"stoker-ui-0={key}"}).status_code == 403
    port = address.rpartition(":")[2]
    named = httpx.get(forwarder.url, headers={"Host": f"evil.example:{port}"}, trust_env=False)
    assert named.status_code == 421
    assert not api.asked
    assert browser.get(forwarder.url).status_code == 200
    assert browser.post(f"{TOP}jobs/").status_code == 501


def test_nothing_else_is_shown(forwarder: Forwarder, browser: httpx.Client, api: Api) -> None:
    """A driver's page can read nothing else of the API and redirect nobody elsewhere."""
    browser.get(forwarder.url)
    api.asked.clear()
    for path in ("/v1/jobs", "/v1/jobs/job-2/ui/", "/metrics", "/v1/jobs/job-1"):
        assert browser.get(path).status_code == 404, path
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    for dots in ("..", "%2e%2e", ".%2E", "..;x", "%252e%252e", "..%5c", "..%2f", ".. "):
        # As no client would write it that puts paths in order itself.
        connection = HTTPConnection(site(forwarder).removeprefix("http://"))
        connection.putrequest("GET", quote(f"{TOP}{dots}/{dots}/users", safe="/%;"))
        connection.putheader("Cookie", cookie)
        connection.endheaders()
        assert connection.getresponse().status == 404, dots
        connection.close()
    assert not api.asked
    assert browser.get(f"{TOP}away").status_code == 502
    answer = browser.get(f"{TOP}gone")
    assert (answer.status_code, answer.text) == (502, "no daemon answers\n")


def test_a_job_whose_driver_does_not_run_has_no_ui(daemon: Daemon, tmp_path: Path, capsys: Capture) -> None:
    """A job without a running driver has no UI; the error names a way to see it."""
    app = tmp_path / "app.py"
    app.touch()
    assert daemon.run("submit", "-o", "json", str(app)) == 0
    job_id = json.loads(capsys.readouterr().out)["id"]
    assert daemon.run("ui", job_id) == 2
    assert "its driver does not run yet" in capsys.readouterr().err
    daemon.cast.put(job_id, "finished")
    assert daemon.run("ui", job_id) == 2
    assert f"`stoker history {job_id}` shows its UI" in capsys.readouterr().err
