"""The provider of the operator's own programs: their requests, and any answers."""

import json
import os
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conf.loader import ConfigError
from conf.schema import CommandProvider
from environment.pools import Terms
from environment.resources import Resources
from environment.types import Vm
from framework.embedded import AgentSpec
from framework.providers.agent_join import Door
from framework.providers.command import ProgramProvider
from framework.providers.interface import Machine, Notice, ProviderError, VmRequest
from tests.framework.embedded.running import running
from tests.waiting import until

VM = Vm("general-3", "general-3", "m1.large", Resources.of(4, 16384), 0.24, terms=Terms("general", 60.0))
WANTED = VmRequest("general-3.17", VM)
DOOR = Door("10.0.0.1:5050", "https://stoker.example:8642", lambda lease: f"key of {lease}")
EXAMPLE = str(Path(__file__).parents[3] / "deploy/vms.py")

Made = Callable[..., ProgramProvider]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A factory of providers with this shell script for all programs."""

    def make(script: str, **options: Any) -> ProgramProvider:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        programs = dict.fromkeys(("open", "close", "list", "prices", "notices"), "./program")
        return ProgramProvider(CommandProvider(name="command", **programs | options), DOOR, tmp_path)

    return make


def answering(made: Made, answer: object) -> ProgramProvider:
    """A provider with programs that give this answer to every request."""
    return made(f"cat <<'end'\n{answer if isinstance(answer, str) else json.dumps(answer)}\nend")


def refused(deed: Callable[[], object]) -> tuple[str, str]:
    """The refusal's kind and message."""
    with pytest.raises(ProviderError) as error:
        deed()
    return error.value.kind, str(error.value)


@pytest.mark.parametrize(
    ("answer", "charged"),
    [
        ({"charged": 0.25}, 0.25),
        ({}, None),
        ("", None),
        ("gone", None),
        ({"charged": "a dime"}, None),
    ],
)
def test_what_a_vm_has_cost_is_read_of_who_closed_it(made: Made, answer: object, charged: object) -> None:
    """Other content of the answer is ignored: the VM is closed."""
    assert answering(made, answer).close("vm-1") == charged


def test_what_is_asked_comes_on_stdin(made: Made, tmp_path: Path) -> None:
    """And with it the key of the VM, which no process list shows."""
    provider = made("""cat > asked; tr '\\0' ' ' < /proc/$$/cmdline > line; echo '{"id": "vm-1"}'""")
    assert provider.open(WANTED) == Machine("vm-1", "general-3.17", "general", "running")
    assert json.loads((tmp_path / "asked").read_text()) == {
        "lease": "general-3.17",
        "pool": "general",
        "name": "general-3",
        "type": "m1.large",
        "resources": {"cpus": 4, "mem": 16384},
        "price_per_hour": 0.24,
        "spot": False,
        "agent": {
            "master": "10.0.0.1:5050",
            "attributes": "vm:m1.large;price:0.24;lease:general-3.17",
            "resources": "cpus:4;mem:16384",
        },
        "notice": {
            "url": "https://stoker.example:8642/v1/vms/general-3.17/notice",
            "key": "key of general-3.17",
        },
    }
    assert (tmp_path / "line").read_text().split() == ["/bin/sh", "./program"]
    provider.close("vm-1")
    assert json.loads((tmp_path / "asked").read_text()) == {"id": "vm-1"}


def test_what_is_answered(made: Made) -> None:
    """Machines, prices and notices as the contract has them; nothing where there is no program."""
    told = {
        "id": "a",
        "lease": "l.1",
        "pool": "p",
        "state": "booting",
        "opened_at": 12,
        "address": "10.0.0.9",
    }
    told |= {"price_per_hour": 0.1, "charged": 0.02}
    assert answering(made, {"machines": [told]}).list() == (
        Machine("a", "l.1", "p", "booting", 12.0, 0.1, "10.0.0.9", 0.02),
    )
    assert answering(made, {"prices": {"p": 0.07}}).prices() == {"p": 0.07}
    notices = {"notices": [{"lease": "l.1", "at": 1e9, "why": "sold"}]}
    assert answering(made, notices).notices() == (Notice("l.1", 1e9, "sold"),)
    none = made("exit 1", prices=None, notices=None)
    assert (none.prices(), none.notices()) == ({}, ())


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("", "not JSON in UTF-8: Expecting value: line 2 column 1 (char 1)"),
        ("[]", "should be one JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"id": NaN}', "not JSON in UTF-8: NaN is not a number"),
        ("{}", "id: missing; it has no default"),
        ({"id": ""}, "id: should have at least 1 item, found ''"),
        ({"id": "a\u202eb"}, "id: should be one line without control or invisible characters (here \\u202e), "
                             "found 'a\\u202eb'"),
        ({"id": "a", "price_per_hours": 1}, "price_per_hours: unknown key; did you mean price_per_hour?"),
        ({"id": "a", "price_per_hour": 1e7},
         "price_per_hour: should be less than or equal to 1000000, found 10000000.0"),
        ({"id": "a", "opened_at": 1e300},
         "opened_at: should be less than or equal to 253402300799, found 1e+300"),
        ({"id": "a", "charged": 1e300}, "charged: should be less than or equal to 1000000000, found 1e+300"),
        ({"id": "a", "state": "up"}, "state: should be 'booting', 'running' or 'closing', found 'up'"),
        ({"id": "a", "opened_at": "now"}, "opened_at: should be a number, found 'now'"),
        ({"id": "a", "price_per_hour": -1}, "price_per_hour: should be greater than or equal to 0, found -1"),
        ('{"id": "a", "charged": 1e999}', "charged: should be a finite number, found inf"),
        ({"id": "a", "lease": "general-3.18"}, "lease: should be 'general-3.17', found 'general-3.18'"),
        ({"id": "a", "pool": "other"}, "pool: should be 'general', found 'other'"),
    ],
)  # fmt: skip
def test_a_wrong_answer_names_program_and_field(made: Made, answer: object, says: str) -> None:
    """Whether a VM is open then nobody knows."""
    found = refused(lambda: answering(made, answer).open(WANTED))
    assert found == ("unavailable", f"answer of open (./program): {says}")


def test_a_machine_needs_its_lease_in_a_list(made: Made) -> None:
    """A machine without its lease is an error, as its owner would be unknown."""
    found = refused(answering(made, {"machines": [{"id": "a", "pool": "p"}]}).list)
    assert found[1] == "answer of list (./program): machines.0.lease: missing; it has no default"


@pytest.mark.parametrize(
    ("script", "kind", "says"),
    [
        ("echo first >&2; echo 'no m1.large left' >&2; echo >&2; exit 10", "capacity", "no m1.large left"),
        ("exit 11", "quota", "exit code 11"),
        ("printf 'a\\033[31mb' >&2; exit 12", "invalid", "a\\x1b[31mb"),
        ("exit 1", "unavailable", "exit code 1"),
        ("kill -9 $$", "unavailable", "ended by SIGKILL"),
    ],
)
def test_an_exit_code_says_of_which_kind_a_refusal_is(made: Made, script: str, kind: str, says: str) -> None:
    """And the last line of stderr why, as far as it can be shown."""
    assert refused(lambda: made(script).open(WANTED)) == (kind, f"open (./program): {says}")


def test_a_program_that_is_none(made: Made, tmp_path: Path) -> None:
    """A daemon does not start with it; one that vanishes is not taken for a refusal."""
    with pytest.raises(ConfigError) as error:
        made("", open="./nothing")
    assert str(error.value) == f"provider.open: ./nothing: no such program (looked in {tmp_path})"
    with pytest.raises(ConfigError, match=r"provider\.list: no-such-program: no such program"):
        made("", list="no-such-program")
    provider = made("exit 10")
    (tmp_path / "program").unlink()
    assert refused(lambda: provider.open(WANTED)) == (
        "unavailable", "open (./program): cannot be run: No such file or directory",
    )  # fmt: skip


def test_a_program_that_does_not_end(made: Made, tmp_path: Path) -> None:
    """It is killed with all that it started, as soon as it may not take longer."""
    began, path = time.monotonic(), tmp_path / "child"
    for timeout in (0.3, 3.0, 30.0):  # a busy machine may not have come to start the child
        found = refused(made("sleep 600 & echo $! > child; wait", timeout=timeout).list)
        told = f"list (./program): did not end within {timeout:g} s, and was killed"
        assert found == ("unavailable", told)
        if path.exists() and path.read_text():
            break
    assert time.monotonic() - began < 300
    child = int(path.read_text())
    until(lambda: not _runs(child), "its child is gone")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_program_that_does_not_stop(made: Made) -> None:
    """Its answers and complaints are both stored only up to a limit."""
    assert refused(made("exec head -c 20000000 /dev/zero").list) == (
        "unavailable", "answer of list (./program): more than 16 MiB"
    )  # fmt: skip
    assert refused(made("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 10").list) == (
        "capacity", "list (./program): " + "x" * 300
    )  # fmt: skip


def test_what_it_leaves_behind_keeps_nobody_waiting(made: Made, tmp_path: Path) -> None:
    """A program may start a process that goes on, and that holds its pipes."""
    began = time.monotonic()
    assert made("sleep 600 & echo $! > child; echo '{\"machines\": []}'").list() == ()
    assert time.monotonic() - began < 300
    child = int((tmp_path / "child").read_text())
    assert _runs(child)
    os.kill(child, 9)


def test_a_name_that_is_no_attribute(made: Made) -> None:
    """The VM's agent could not tell its type; nothing is asked."""
    wanted = replace(WANTED, vm=replace(VM, type="a;b"))
    kind, says = refused(lambda: made("exit 10").open(wanted))
    assert (kind, says) == ("invalid", "'a;b' cannot be an attribute (vm) of a Mesos agent")


def test_the_example(tmp_path: Path) -> None:
    """It opens, lists and closes VMs of an embedded Mesos, once for each lease."""
    specs = [
        AgentSpec(f"general-{n}", "m1.large", 4, 16384, 0.24, "127.0.0.1", (21_500 + n, 21_500 + n),
                  pool="general", boot=0.1)
        for n in (2, 3)
    ]  # fmt: skip
    with running(tmp_path, specs) as mesos:
        programs = {deed: (sys.executable, EXAMPLE, deed, mesos.address)
                    for deed in ("open", "close", "list", "notices")}  # fmt: skip
        provider = ProgramProvider(
            CommandProvider.model_validate({"name": "command", **programs}), DOOR, tmp_path
        )
        opened = provider.open(WANTED)
        assert (opened.lease, opened.pool, opened.address) == ("general-3.17", "general", "127.0.0.1")
        assert provider.open(WANTED).id == opened.id
        assert [one.id for one in provider.list()] == [opened.id]
        assert provider.notices() == ()
        kind, says = refused(lambda: provider.open(replace(WANTED, lease="general-3.18")))
        assert (kind, says) == (
            "capacity", f"open ({sys.executable}): general-3 is open under another lease"
        )  # fmt: skip
        provider.close(opened.id)
        provider.close(opened.id)
        assert provider.list() == ()
