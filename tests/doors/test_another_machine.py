"""A user's driver on a machine of its own: a network namespace, on the network of VMs that are isolated."""

import contextlib
import ipaddress
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from stoker import Stoker

from daemon.cli.operate.temporary_daemon import TemporaryDaemon
from tests.doors.submitting import SparkSubmit
from tests.real_daemon import PATIENCE, QUICK_JAVA

#: What a notebook does, with a file and a module of its own machine; it stays until it is told to go.
APP = """
import pathlib, sys, time
from pyspark import SparkFiles
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()

def counted(number):
    from helper import doubled
    with open(SparkFiles.get("words.txt")) as words:
        return doubled(len(words.read().split())) * number

print("SUM", spark.sparkContext.parallelize(range(4), 4).map(counted).sum(), flush=True)
# More than fits into an executor's answer: the driver fetches it there.
print("FETCHED", len(spark.sparkContext.parallelize([3 << 20], 1).map(bytes).collect()[0]), flush=True)
pathlib.Path(sys.argv[1]).touch()
while pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.1)
spark.stop()
"""


#: The smallest JVMs, and one executor.
SMALL = "".join(
    f"{name} {value}\n"
    for name, value in {
        **QUICK_JAVA,
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "1",
    }.items()
)


#: VMs with a network of their own, and as quick as this machine.
ISOLATED = {"jvms": 1000, "isolation": "vm", "isolation_scale": 1.0}


class _Reachable(TemporaryDaemon):
    """On all addresses, for holders of its token; its VMs are isolated where the machine can."""

    token = "the-t0ken"

    def _config(self) -> str:
        file = self._folder / "token"
        file.write_text(self.token)
        file.chmod(0o600)
        plain = yaml.safe_load(super()._config())
        plain["listen"] = plain["listen"].replace("127.0.0.1", "0.0.0.0")  # noqa: S104  # for who has it
        return yaml.safe_dump({**plain, "token_file": str(file)})


@contextlib.contextmanager
def machine(host: str) -> Iterator[tuple[list[str], str]]:
    """A machine beside the VMs: how a command begins that runs there, and its address."""
    name = f"stoker-user-{os.getpid()}"
    (link,) = json.loads(_ip("-j", "addr", "show", "to", f"{host}/32"))
    address = str(ipaddress.ip_address(host) + 4)  # before those of the VMs
    prefix = next(one["prefixlen"] for one in link["addr_info"] if one["local"] == host)
    card = f"usr{os.getpid()}"
    _ip("netns", "add", name)
    try:
        _ip("link", "add", card, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", card, "master", link["ifname"], "up")
        _ip("-n", name, "addr", "add", f"{address}/{prefix}", "dev", "eth0")
        for own in ("eth0", "lo"):
            _ip("-n", name, "link", "set", own, "up")
        yield ["ip", "netns", "exec", name], address
    finally:
        _ip("netns", "del", name)


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True).stdout


@contextlib.contextmanager
def driving(command: list[str], environment: dict[str, str], folder: Path) -> Iterator[str]:
    """A driver that has done its work and stays until the end of `with`; yields its output."""
    stays = folder / "stays"
    with (
        (folder / "printed").open("w") as out,
        subprocess.Popen(
            [*command, str(stays)], env=environment, cwd=folder, stdout=out, stderr=out
        ) as driver,
    ):
        deadline = time.monotonic() + PATIENCE
        said = ""
        # What Python prints goes through Spark's JVM, and may be there after the file is.
        while not (stays.exists() and "FETCHED" in said) and driver.poll() is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
            said = (folder / "printed").read_text()
        try:
            yield said
        finally:
            stays.unlink() if stays.exists() else driver.kill()
    assert driver.returncode == 0


@pytest.mark.slow
def test_a_driver_on_another_machine(tmp_path: Path) -> None:
    """Executors come to it, have its files, and are fetched from; its UI is where its job says."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "helper.py").write_text("def doubled(number):\n    return 2 * number\n")
    (tmp_path / "words.txt").write_text("one two three\n")
    token = tmp_path / "token"
    with (
        _Reachable(tmp_path, "ff", "clusters/paper.yaml", ISOLATED) as stage,
        Stoker(stage.url, token) as client,
    ):
        stage.await_ready(client)
        host = client.sparks()["driver_host"]
        if ipaddress.ip_address(host).is_loopback:
            pytest.skip(f"VMs cannot be isolated here: {stage.log_file.read_text()[-500:]}")
        with machine(host) as (there, address):
            access = ["--url", stage.url.replace("127.0.0.1", host), "--token-file", str(token)]
            command = [*there, sys.executable, "-m", "daemon.cli", "spark-conf", *access]
            conf = subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE, check=True
            ).stdout
            assert "spark.driver.host" not in conf  # Spark finds it out
            (tmp_path / "stoker.conf").write_text(conf + SMALL)
            (settings := tmp_path / "settings").mkdir()
            submit = SparkSubmit("4.3", settings)
            files = ("--py-files", "helper.py", "--files", "words.txt")
            begun = submit.command("--properties-file", "stoker.conf", *files, "app.py")
            with driving([*there, *begun], submit.environment, tmp_path) as said:
                assert "SUM 36\n" in said, said
                assert f"FETCHED {3 << 20}\n" in said, said
                job_id = said.partition("stoker: this is ")[2].split()[0]
                ui = client.job(job_id)["ui"]
                assert ui is not None
                assert ui.startswith(f"http://{address}:")
                assert httpx.get(ui, follow_redirects=True, timeout=300.0).status_code == 200
                assert "Executor 0 joins app-" in client.log(job_id, executor=0, stream="stderr")
        job = client.job(job_id)
        assert (job["state"], job["reason"]) == ("finished", "its driver stopped")
