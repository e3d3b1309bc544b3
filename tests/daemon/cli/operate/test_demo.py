"""The demo's own parts: its tables, its mistakes, and that it leaves nothing running."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from conf.loader import build
from conf.schema import Config
from daemon.cli import main
from daemon.cli.operate import demo, demo_tables
from daemon.cli.shared import render
from tests.daemon.ports import free_port
from tests.waiting import until

POOLS = [
    {"name": "a", "type": "a", "price_per_hour": 0.5, "max": 2},
    {"name": "b", "type": "b", "price_per_hour": 1.0, "max": 1},
]
_LINE = {"key": "a-1.7", "total": 0.02, "used": 0.015, "idle": 0.004, "booting": 0.001, "draining": 0.0}
BILL = {"total": {**_LINE, "key": "", "rounding": 0.0}, "lines": [{**_LINE, "rounding": 0.0}]}
PAID = demo_tables.Paid(BILL, POOLS, 90.0, closed=True)


ADOPTING = """
import subprocess, sys
from daemon.cli.operate.orphans import descendants, end_all
from framework.host.process_tree import adopt_orphans

adopt_orphans()
stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
parent = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], process_group=0)"
with subprocess.Popen([sys.executable, "-c", parent, stubborn], stdout=subprocess.PIPE) as process:
    process.stdout.readline()
    process.wait()
    found = list(descendants())
    end_all(lambda: list(descendants()), grace_seconds=0.2)
    print(len(found), len(list(descendants())))
"""


STAYING = """
import sys
from daemon.cli import main
from daemon.cli.operate import demo

demo.JOBS, demo.DEFAULT_URL = (("wordcount", 1),), sys.argv[1]
sys.exit(main(["demo", "--stay", "--data-dir", sys.argv[2]]))
"""


def make_job(number: int, **given: Any) -> dict[str, Any]:
    """A finished job with one executor on a-1."""
    executor = {"number": 0, "vm": "a-1", "vm_type": "a", "price_per_hour": 0.5, "state": "finished"}
    job = {"id": f"job-{number}", "name": f"app{number}", "state": "finished", "reason": "done", "cost": 0.25}
    times = {"duration": 12.0, "completion": 15.0, "submitted_at": 100.0, "finished_at": 115.0}
    return job | times | {"tasks": [executor]} | given


def placing(*reasons: str, first: int = 0) -> dict[str, Any]:
    """A decision that places one executor for each reason."""
    return {"choices": [{"executor": i, "why": why} for i, why in enumerate(reasons, first)]}


def printed(capsys: pytest.CaptureFixture[str], jobs: list[dict[str, Any]], decisions: Any) -> str:
    """Output of the demo at its end."""
    results = {job["id"]: '{"words": 7}' for job in jobs}
    render.show(*demo_tables.closing(jobs, decisions, results, PAID))
    return capsys.readouterr().out


def test_all_jobs_of_the_demo_have_room_at_once() -> None:
    """The demo runs up to eleven JVMs at once, however large this machine is."""
    assert build(Config, {"mesos": demo._MESOS}, "config").mesos.jvms == 11


def test_the_opening_counts_the_vms() -> None:
    """The cluster is told by types."""
    text = demo_tables.opening(POOLS, "ff", "http://127.0.0.1:1")
    ready = "The daemon is ready at http://127.0.0.1:1"
    assert text == f"{ready}, its page in a browser too: no VM is open, 3 VMs could be (2 a, 1 b), policy ff."


def test_the_end_tells_where_and_at_what_cost(capsys: pytest.CaptureFixture[str]) -> None:
    """The tables name each executor's VM, price and reason; sums and a clear sentence follow."""
    jobs = [make_job(1), make_job(2)]
    text = printed(capsys, jobs, {"job-1": [placing("first with room")], "job-2": [placing("next in turn")]})
    assert "first with room" in text
    assert "next in turn" in text
    assert "$0.5000/h" in text
    assert 'app1 printed: {"words": 7}' in text
    assert "2 of 2 jobs finished: 2 executors on 1 VM, $0.5000 in total." in text


def test_the_end_tells_the_bill(capsys: pytest.CaptureFixture[str]) -> None:
    """The demo ends with the bill by VM and kind.

    It also has the cost of three fixed VMs, two dollars per hour in all, for 90 seconds.
    """
    text = printed(capsys, [make_job(1)], {"job-1": []})
    rows = [line.split() for line in text.splitlines()]
    assert ["VM", "billed", "used", "idle", "booting"] in rows
    assert ["a-1.7", "$0.0200", "$0.0150", "$0.0040", "$0.0010"] in rows
    end = "The VMs cost $0.0200; 3 that are always there would have cost $0.0500 in the same 1 min 30 s."
    assert text.splitlines()[-1] == end
    assert "Not all VMs" not in text


def test_a_replaced_executor_has_the_later_decision_s_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """Each executor is shown with its own reason, whichever decision placed it."""
    again = [
        {"number": n, "vm": vm, "vm_type": "a", "price_per_hour": 0.5, "state": "finished"}
        for n, vm in ((0, "a-1"), (1, "a-2"))
    ]
    text = printed(
        capsys, [make_job(1, tasks=again)], {"job-1": [placing("once"), placing("once more", first=1)]}
    )
    rows = [line for line in text.splitlines() if line.startswith("app1 ")]
    assert ["a-1" in row and "once" in row for row in rows[:2]] == [True, False]
    assert "once more" in rows[1]


def test_a_failure_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """The last sentence does not hide that a job failed, and a job that never ended has no times."""
    running = make_job(2, state="running", duration=None, completion=None, finished_at=None)
    text = printed(capsys, [make_job(1, state="failed"), running, make_job(3)], {key: [] for key in _ids(3)})
    assert "1 of 3 jobs finished" in text


def test_without_a_terminal_news_come_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """A job is told of once, and again when something about it changed."""
    with demo_tables.screen() as update:
        for state in ("queued", "queued", "running"):
            update([make_job(1, state=state)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        "app1 queued: done (0 on a-1)",
        "app1 running: done (0 on a-1)",
    ]


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo never writes among other files."""
    (tmp_path / "mine").write_text("")
    assert main(["demo", "--data-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"stoker: --data-dir {tmp_path}: should be new or empty\n"


def test_a_daemon_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    """When the daemon ends at its start, the demo fails and shows why."""
    command = [sys.executable, "-m", "daemon.cli", "demo", "--policy", "nearest", "--data-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "stoker: the daemon has ended" in done.stderr
    assert "policy nearest: unknown" in done.stderr
    assert "Traceback" not in done.stderr


def test_its_page_stays_where_commands_ask(tmp_path: Path) -> None:
    """With a real job on it, until Ctrl-C; nothing is left then."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-c", STAYING, url, str(tmp_path / "demo")]
    said = tmp_path / "said"
    with said.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            for news in (b"queued", b"running", b"finished", b"stays until Ctrl-C"):
                until(
                    lambda news=news: news in said.read_bytes() or process.poll() is not None,  # type: ignore[misc]
                    said.read_text,
                )
                assert news in said.read_bytes(), said.read_text()
            assert f"on the page at {url}, which stays until Ctrl-C" in said.read_text()
            page = httpx.get(url, headers={"Accept": "text/html"})
            assert page.text.startswith("<!doctype html>")
            assert [job["state"] for job in httpx.get(f"{url}/v1/jobs").json()["jobs"]] == ["finished"]
            taken = subprocess.run(command, capture_output=True, text=True)
            assert (taken.returncode, taken.stdout) == (2, "")
            assert taken.stderr.startswith(f"stoker: {url}: Address already in use")
            process.send_signal(signal.SIGINT)
            assert process.wait(600) == 0
        finally:
            process.terminate()
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_what_a_process_leaves_behind_is_found_and_ended() -> None:
    """A leftover grandchild is ended.

    It has a process group of its own, its parent is gone, and it ignores SIGTERM.
    """
    done = subprocess.run([sys.executable, "-c", ADOPTING], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1 0\n", "")


def _ids(count: int) -> list[str]:
    return [f"job-{i + 1}" for i in range(count)]
