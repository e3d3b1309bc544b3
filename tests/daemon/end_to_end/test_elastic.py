"""Daemons on elastic VMs: these boot for jobs, run them and close, even if the daemon is killed."""

import contextlib
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from stoker import Stoker

from daemon.cli import main
from framework.embedded import AgentSpec
from framework.mesos.bounded_http import NOBODY
from framework.providers.embedded import EmbeddedMesosProvider
from tests.chaos.scene import MINIATURE, REPOSITORY
from tests.daemon.fleet import Daemon, Fleet, fleets
from tests.daemon.ports import free_port
from tests.waiting import until

EXAMPLE = str(Path(__file__).parents[3] / "deploy/vms.py")
POOLS = """
pools:
  - {name: general, type: m1.large, cpus: 1, memory: 4g, price_per_hour: 0.24, max: 3, boot: 4s}
"""
#: As the cluster file has them.
AGENTS = [
    AgentSpec(
        f"general-{n}", "m1.large", 1, 4096, 0.24, f"127.0.12.{n}", (20_000 + 200 * n, 20_199 + 200 * n),
        pool="general", boot=4.0,
    )
    for n in (1, 2, 3)
]  # fmt: skip


@pytest.fixture
def elastic(tmp_path: Path) -> Iterator[Fleet]:
    """Daemons that have an embedded Mesos open and close its VMs."""
    (tmp_path / "cluster.yaml").write_text(POOLS)
    with fleets(tmp_path, AGENTS) as make:
        yield make(
            policy={"name": "ff"},
            mesos={"cluster": str(tmp_path / "cluster.yaml")},
            provider={"name": "embedded"},
            keep={"name": "timeout", "seconds": 1.0},
        )


@pytest.mark.slow
def test_a_daemon_that_is_killed_while_vms_boot_run_and_idle(elastic: Fleet, tmp_path: Path) -> None:
    """Each VM is opened once, the job runs once, and in the end all VMs are closed.

    This holds for VMs that either daemon opened.
    """
    provider = EmbeddedMesosProvider(elastic.mesos.address, NOBODY)
    first = elastic.add()
    job_id = elastic.submit(first, 3.0)
    until(lambda: "general-1 to boot (due at" in elastic.wait(first, job_id, "queued")["reason"], first.log)
    # It is "opening" until the provider's answer, in which it is listed already, is in the store.
    until(lambda: cluster(first) == ([("general-1", "booting")], 1), first.log)
    first.end(signal.SIGKILL)
    (booting,) = provider.list()
    second = elastic.add()
    elastic.wait(second, job_id, "running")
    assert cluster(second) == ([("general-1", "up")], 1)
    until(lambda: '"provider":"ok"' in getattr(second.get("/readyz"), "text", ""), second.log)
    assert [machine.id for machine in provider.list()] == [booting.id]
    second.end(signal.SIGKILL)
    third = elastic.add()
    job = elastic.wait(third, job_id, "finished", "failed")
    assert (job["state"], elastic.drivers()) == ("finished", 1)
    with Stoker(third.url) as client:
        placed = client.explain(job_id)["explanations"][0]
    assert [vm["details"] for vm in placed["choices"][0]["candidates"]] == [{"ready in s": 4.0}] * 3
    third.end(signal.SIGKILL)
    assert [machine.id for machine in provider.list()] == [booting.id]
    last = elastic.add()
    until(lambda: not provider.list(), last.log)
    until(lambda: states(tmp_path) == ["closed"], last.log)
    assert cluster(last) == ([], 0)


def cluster(daemon: Daemon) -> tuple[list[tuple[str, str]], int]:
    """The VMs that it shows with their states, and how many of the pool it says are open."""
    with Stoker(daemon.url) as client:
        told = client.cluster()
    (pool,) = told["pools"]
    return [(vm["name"], vm["state"]) for vm in told["vms"]], pool["open"]


def states(folder: Path) -> list[str]:
    """Of all leases that there ever were."""
    with contextlib.closing(sqlite3.connect(folder / "host" / "stoker.db")) as sql:
        return [state for (state,) in sql.execute("SELECT state FROM leases ORDER BY asked_at")]


def test_programs_of_the_operator_and_a_vm_that_is_taken_away(elastic: Fleet, tmp_path: Path) -> None:
    """Programs open and close VMs.

    A VM announces by its key that it leaves, and its executors move to another.
    """
    programs = {deed: (sys.executable, EXAMPLE, deed, elastic.mesos.address) for deed in ("close", "list")}
    opens = f'tee -a asked | "$0" {EXAMPLE} open {elastic.mesos.address}'
    told = {"name": "command", "open": ["sh", "-c", opens, sys.executable], **programs}
    daemon = elastic.add(provider=told)
    job_id = elastic.submit(daemon, 4.0)
    elastic.wait(daemon, job_id, "running")
    assert cluster(daemon) == ([("general-1", "up")], 1)
    asked = json.loads((tmp_path / "asked").read_text())
    assert asked["agent"]["master"] == elastic.mesos.address
    notice = {"action": "terminate", "time": datetime.fromtimestamp(time.time() + 60, UTC).isoformat()}
    headers = {"Authorization": f"Bearer {asked['notice']['key']}"}
    assert httpx.post(asked["notice"]["url"], json=notice, headers=headers).status_code == 202
    moving = [{"general-1": "draining", "general-2": state} for state in ("opening", "booting")]
    until(lambda: dict(cluster(daemon)[0]) in moving, daemon.log)
    assert elastic.wait(daemon, job_id, "finished", "failed")["state"] == "finished"
    until(lambda: states(tmp_path) == ["closed", "closed"], daemon.log)
    assert not EmbeddedMesosProvider(elastic.mesos.address, NOBODY).list()


def test_the_commands_for_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of docs/elastic.md, with its files; only the Spark is smaller."""
    text = (REPOSITORY / "docs/elastic.md").read_text()
    section = text.partition("### The embedded Mesos\n")[2].partition("\n### ")[0]
    for block in re.findall(r"```yaml\n# (.*?\n.*?)```", section, re.DOTALL):
        name, _, content = block.partition("\n")
        (tmp_path / name).write_text(content)
    commands = [
        shlex.split(line) for line in re.findall(r"^\$ \.venv/bin/stoker (.*)$", section, re.MULTILINE)
    ]
    assert [words[0] for words in commands] == ["config", "up", "submit", "cluster", "job"]
    listen = f"127.0.0.1:{free_port()}"
    settings = [f"listen={listen}", f"data_dir={tmp_path / 'data'}", "mesos.port=0", f"spark={MINIATURE}"]
    small = [part for setting in settings for part in ("--set", setting)]
    (tmp_path / "app.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STOKER_URL", f"http://{listen}")
    printed = {}
    with contextlib.ExitStack() as stack:
        for words in commands:
            if words[0] == "up":
                stack.enter_context(up([*words, *small], tmp_path / "log"))
                continue
            more = {"config": small, "submit": ["1", "0"]}.get(words[0], [])
            assert main([*words, *more]) == 0
            printed[words[0]] = capsys.readouterr().out
            if words[0] == "submit":  # whoever types the next command is no sooner
                with Stoker(os.environ["STOKER_URL"]) as client:
                    until(lambda: "to boot" in client.job("job-1")["reason"], (tmp_path / "log").read_text)
        assert main(["kill", "job-1"]) == 0
    assert "5 VMs, 4 of them in pools" in printed["config"]
    rows = [line.split() for line in printed["cluster"].splitlines()]
    assert ["2", "of", "general", "closed"] in [row[:4] for row in rows]
    assert {row[1] for row in rows if row[:1] in (["general-1"], ["general-2"])} <= {"opening", "booting"}
    assert "waits for general-1 and general-2 to boot (due at" in printed["job"]


@contextlib.contextmanager
def up(words: list[str], log: Path) -> Iterator[None]:
    """A daemon that is started so, until it is told to end."""
    command = [sys.executable, "-P", "-m", "daemon.cli", *words]
    with log.open("ab") as file:
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        daemon = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    with Stoker(os.environ["STOKER_URL"]) as client:
        until(client.ready, log.read_text)
    try:
        yield
    finally:
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(600) == 0, log.read_text()


def test_limits_in_dollars_and_a_commitment(elastic: Fleet, tmp_path: Path) -> None:
    """A pool's limit has the second job wait for the first one's VM; a job ends at its max_cost.

    The bill has the limits, and what was used of a commitment.
    """
    general = {"dollars_per_hour": 0.3, "dollars_per_day": 9.0}
    year = {"pool": "general", "vms": 1, "price_per_hour": 0.2, "since": "2020-01-01", "until": "2099-12-31"}
    daemon = elastic.add(budget={"pools": {"general": general}}, commitments={"year": year})
    first, second = elastic.submit(daemon, 6.0), elastic.submit(daemon, 1.0)
    elastic.wait(daemon, first, "running")
    why = "pool general may cost $0.3 per hour, and costs $0.24"
    until(lambda: why in elastic.wait(daemon, second, "queued")["reason"], daemon.log)
    with Stoker(daemon.url) as client:
        spec = client.job(second)["spec"]
        assert spec is not None
        third = client.submit_spec({**spec, "max_cost": 1e-6, "at_max_cost": "end"})["id"]
    assert {elastic.wait(daemon, i, "finished", "failed")["state"] for i in (first, second)} == {"finished"}
    ended = elastic.wait(daemon, third, "failed", "finished")
    assert (ended["state"], "and is ended (at_max_cost: end)" in ended["reason"]) == ("failed", True)
    assert len(states(tmp_path)) < 3
    with Stoker(daemon.url) as client:
        bill = client.bill()
    assert bill["budget"] is not None
    day, hour = bill["budget"]["limits"][::-1]
    assert (day["pool"], hour["dollars"], 0.0 < day["spent"] < 0.01) == ("general", 0.3, True)
    (covered,) = bill["commitments"]
    assert covered["list_cost"] == pytest.approx(bill["total"]["total"], rel=0.2)
    assert covered["used"] == pytest.approx(covered["list_cost"] / 1.2)
