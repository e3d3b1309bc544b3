"""No process is root while it has a job's environment: the loader and Python obey it before any code of ours.

The loader is asked to write down that it obeyed (`LD_DEBUG_OUTPUT`); the file's owner is the user then.
"""

import math
import os
import pwd
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from framework.embedded.agent.processes import popen
from framework.embedded.isolation import Entry, Isolation, IsolationError, IsolationOptions
from framework.host.unix_users import find_account
from framework.spark.command_lines import ProcessSpec
from framework.spark.driver.driver import DriverPlace, driver_status, start_driver
from tests.chaos.strangers import environment_of
from tests.framework.embedded.isolation.test_isolation import agents
from tests.framework.embedded.running import Subscription, framework_info, running, task
from tests.waiting import until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a job as another user")

#: Modules that programs of ours import, and those that Python imports by itself.
MODULES = ("json", "ctypes", "tarfile", "sitecustomize", "usercustomize", "framework")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may write."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o777)
        yield Path(made)


@pytest.fixture
def environment(folder: Path) -> Mapping[str, str]:
    """Variables by which a job may run code of its own in any process that has them."""
    obeyed = folder / "obeyed"
    return {
        "LD_DEBUG": "libs",
        "LD_DEBUG_OUTPUT": str(obeyed / "loader"),
        "PYTHONHOME": str(folder / "modules"),
        **environment_of(folder, MODULES),
    }


def assert_only_the_user_obeyed(folder: Path) -> None:
    """The variables were obeyed, and by no process of root's."""
    found = {path.name: path.stat().st_uid for path in (folder / "obeyed").iterdir()}
    assert any(name.startswith("loader") for name in found)
    assert {*found.values()} == {pwd.getpwnam("nobody").pw_uid}, found


def test_a_command_in_a_vm(folder: Path, environment: Mapping[str, str]) -> None:
    """It enters its VM as root, with an environment that is ours, and has its own when it is the user."""
    try:
        made = Isolation(agents(), IsolationOptions(0.1, 20.0), "strangers")
    except IsolationError as error:
        pytest.skip(f"VMs cannot be isolated here: {error}")
    with made:
        cell = made.cells["vm-2"]
        entry = Entry(["/bin/sh", "-c", "id -u; echo $GLIBC_TUNABLES"], None, "nobody", environment)
        with (folder / "printed").open("wb") as printed:
            process = popen(cell.wrap(entry, "container", 1.0, 0.0), stdout=printed, stderr=printed)
        assert process.wait() == 0, (folder / "printed").read_text()
        cell.leave("container")
    assert f"{pwd.getpwnam('nobody').pw_uid}\n" in (folder / "printed").read_text()
    assert_only_the_user_obeyed(folder)


def test_a_task_with_files_to_fetch_and_a_check(folder: Path, environment: Mapping[str, str]) -> None:
    """Fetching, the command and its check: none runs as root with the job's variables."""
    (folder / "file").write_text("for all")
    variables = [{"name": name, "value": value} for name, value in environment.items()]
    command = {
        "user": "nobody",
        "uris": [{"value": str(folder / "file")}],
        "environment": {"variables": variables},
    }
    check = {"type": "COMMAND", "command": {"value": "touch checked; true"}, "delay_seconds": 0.0}
    info = framework_info(failover_timeout=600.0)
    with running(folder / "work") as mesos, Subscription(mesos, info) as scheduler:
        wait = "until [ -e checked ]; do sleep 0.05; done; cat file"
        scheduler.launch(
            scheduler.offers()[0], task("hostile", wait, command_fields=command, health_check=check)
        )
        scheduler.update("hostile", "TASK_FINISHED")
        assert (mesos.sandbox("hostile") / "stdout").read_text() == "for all"
    assert_only_the_user_obeyed(folder)


def test_a_driver(folder: Path, environment: Mapping[str, str]) -> None:
    """Its supervisor is root's and knows nothing of the variables; its records are closed to the user."""
    spec = ProcessSpec(("/bin/sh", "-c", "id -u"), environment, {"SECRET": "s"})
    place = DriverPlace(folder / "jobs/driver", folder / "records", user=find_account("nobody"))
    assert start_driver(spec, place, os.environ, before=lambda: math.inf).state in ("running", "ended")
    until(lambda: driver_status(place.records).state == "ended")
    assert driver_status(place.records).exit_code == 0
    assert_only_the_user_obeyed(folder)
