"""A master's answers as a Mesos process: help, files, log level, machine."""

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.framework.embedded.running import Mesos, Subscription, framework_info, running


@pytest.fixture(scope="module")
def mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesos]:
    """One embedded Mesos for all."""
    with running(tmp_path_factory.mktemp("mesos")) as mesos:
        yield mesos


def test_help_lists_what_can_be_asked(mesos: Mesos) -> None:
    """Help is Markdown for curl, a page for browsers; a page without help is a bad request."""
    page = httpx.get(f"http://{mesos.address}/help")
    assert page.headers["Content-Type"] == "text/html"
    assert page.text.startswith("<html><head><title>Help</title>")
    curl = {"User-Agent": "curl/8"}
    top = httpx.get(f"http://{mesos.address}/help", headers=curl)
    assert top.headers["Content-Type"] == "text/x-markdown"
    for process in ("files", "logging", "master", "system"):
        assert f"[/{process}](help/{process})" in top.text
    assert "/master/state" in httpx.get(f"http://{mesos.address}/help/master", headers=curl).text
    one = httpx.get(f"http://{mesos.address}/help/logging/toggle", headers=curl).text
    assert one.startswith("### USAGE ###\n>        /logging/toggle\n")
    assert mesos.request("GET", "/help/nothing") == (400, "No help available for '/nothing'.\n")
    assert mesos.request("GET", "/help/files/x") == (400, "No help available for '/files/x'.\n")
    assert mesos.request("GET", "/help/a/b/c")[0] == 400
    assert mesos.request("GET", "/master/help")[0] == 404


def test_a_master_without_log_files_shows_none(mesos: Mesos) -> None:
    """Its virtual paths are empty, and nothing of the machine is under any path."""
    assert mesos.get("/files/debug") == {}
    for route in ("browse", "read", "download"):
        assert mesos.request("GET", f"/files/{route}") == (400, "Expecting 'path=value' in query.\n")
        for path in ("/", "/etc/passwd", "/master/log", "..", str(mesos.work_dir)):
            assert mesos.request("GET", f"/files/{route}?path={path}") == (404, "404 Not Found.")


def test_the_log_level_is_set_for_a_while(mesos: Mesos) -> None:
    """The level can be read back; missing or wrong values are reported."""
    assert mesos.request("GET", "/logging/toggle") == (200, "0\n")
    assert mesos.request("POST", "/logging/toggle?level=2&duration=10mins") == (200, "")
    assert mesos.request("GET", "/logging/toggle") == (200, "2\n")
    assert mesos.request("POST", "/logging/toggle?level=1&duration=0ns") == (200, "")
    assert mesos.request("GET", "/logging/toggle") == (200, "0\n")
    for query, told in (
        ("level=1", "Expecting 'duration=value' in query.\n"),
        ("duration=1secs", "Expecting 'level=value' in query.\n"),
        ("level=-1&duration=1secs", "Invalid level '-1'.\n"),
    ):
        assert mesos.request("GET", f"/logging/toggle?{query}") == (400, told)
    for query in ("level=x&duration=1secs", "level=1&duration=soon", "level=1&duration=-1secs"):
        assert mesos.request("GET", f"/logging/toggle?{query}")[0] == 400


def test_the_machine_is_described(mesos: Mesos) -> None:
    """Load, processors, memory."""
    told = mesos.get("/system/stats.json")
    assert set(told) == {
        "avg_load_1min",
        "avg_load_5min",
        "avg_load_15min",
        "cpus_total",
        "mem_total_bytes",
        "mem_free_bytes",
    }
    assert told["cpus_total"] == os.sysconf("SC_NPROCESSORS_ONLN")
    assert 0 < told["mem_free_bytes"] <= told["mem_total_bytes"]
    assert mesos.request("GET", "/system")[0] == 404


@pytest.mark.parametrize(
    "route",
    ["teardown", "machine/down", "machine/up", "reserve", "unreserve", "create-volumes", "destroy-volumes"],
)
def test_what_is_posted_is_no_page(mesos: Mesos, route: str) -> None:
    """The answer to a GET names the correct method, instead of a not found."""
    for path in (f"/{route}", f"/master/{route}"):
        told = "405 Method Not Allowed. Expecting one of { 'POST' }, but received 'GET'."
        assert mesos.request("GET", path) == (405, told)
    if route != "teardown":
        assert mesos.request("POST", f"/{route}")[0] == 501


def test_a_framework_can_be_torn_down_by_a_form(mesos: Mesos) -> None:
    """As it was done before there was an API for operators."""
    url = f"http://{mesos.address}/master/teardown"
    with Subscription(mesos, framework_info("going", failover_timeout=60.0)) as scheduler:
        assert httpx.post(url, content="").text == (
            "Missing 'frameworkId' query parameter in the request body"
        )
        unknown = httpx.post(url, content="frameworkId=x")
        assert (unknown.status_code, unknown.text) == (400, "No framework found with specified ID")
        assert httpx.post(url, content=f"frameworkId={scheduler.framework_id}").status_code == 200
        assert scheduler.framework_id not in {f["id"] for f in mesos.get("/frameworks")["frameworks"]}


def test_who_does_not_authenticate_is_told_no_more_than_a_master_tells(tmp_path: Path) -> None:
    """Help and the machine's numbers, as in a real one; not files, not the log level."""
    with running(tmp_path, credentials={"me": "hush"}) as mesos:
        for path in ("/help", "/system/stats.json"):
            assert mesos.request("GET", path)[0] == 200
        for path in ("/files/debug", "/files/browse?path=/", "/logging/toggle", "/teardown"):
            assert mesos.request("GET", path)[0] == 401
