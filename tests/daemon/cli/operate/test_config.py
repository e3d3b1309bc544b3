"""`stoker config check`: errors in a config's references are found before a daemon starts."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.cli import main


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def checked(capsys: pytest.CaptureFixture[str], *settings: str) -> tuple[int, dict[str, Any]]:
    """Exit code, and findings by key."""
    arguments = [part for setting in settings for part in ("--set", setting)]
    code = main(["config", "check", *arguments, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["well"] == (code == 0)
    return code, {finding["key"]: finding for finding in answer["findings"]}


def test_a_config_that_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything is said to be well, nothing is made, and the table is for people."""
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    file, data = tmp_path / "stoker.yaml", tmp_path / "data"
    file.write_text(f"listen: 127.0.0.1:0\ntoken_file: {token}\ndata_dir: {data}\nmesos: {{port: 0}}\n")
    assert main(["config", "check", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "A daemon could start with it." in printed
    assert "warning" not in printed
    assert "secret" not in printed.replace("secret_file", "")
    assert not data.exists()


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("listen=0.0.0.0:1", "an address other than loopback needs users or token_file"),
        ("token_file=/nowhere/token", "/nowhere/token: cannot be read: No such file or directory"),
        ("token_file=/dev/zero", "too long"),
        ("data_dir=/dev/null/x", "is no folder"),
        ("database=nonsense", "no store is there"),
        ("database=postgresql://me:hidden@127.0.0.1:1/x", "postgresql://me:***@127.0.0.1:1/x: connection"),
        ("profiles=none.yaml", "none.yaml: no such file"),
        ("policy.name=zork", "policy zork: unknown"),
        ("policy={name: ilp, beta: many}", "beta"),
        ("fallback={name: zork}", "policy zork: unknown"),
        ("shadow={name: zork}", "policy zork: unknown"),
        ("mesos.cluster=none.yaml", "none.yaml: no such file"),
        ("tls={cert: /nowhere.pem}", "/nowhere.pem"),
        ("run_as=nobody-of-that-name", "nobody-of-that-name"),
    ],
)
def test_what_is_wrong_is_found(setting: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By its key; the exit code is 1."""
    code, found = checked(capsys, setting)
    finding = found[setting.partition("=")[0].removesuffix(".name")]
    assert (code, finding["verdict"]) == (1, "error")
    assert says in finding["what"]
    assert "hidden" not in finding["what"]


def test_a_token_that_others_may_read_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And so is an empty one."""
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o640)
    code, found = checked(capsys, f"token_file={token}")
    assert (code, found["token_file"]["what"]) == (
        1,
        f"{token}: users other than its owner may use it; chmod 600 {token}",
    )
    token.write_text("\n")
    assert checked(capsys, f"token_file={token}")[1]["token_file"]["what"] == f"{token}: is empty"


@pytest.mark.parametrize(("mode", "verdict"), [(0o700, "ok"), (0o711, "ok"), (0o755, "warning")])
def test_a_folder_that_jobs_may_pass_is_private(
    mode: int, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A data folder that jobs may only pass through is accepted.

    Jobs of a root daemon go through it, and the usual cure (mode 700) would lock them out.
    """
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(mode)
    assert checked(capsys, f"data_dir={data}")[1]["data_dir"]["verdict"] == verdict


def test_doubts_are_no_errors(taken: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A daemon may be running there, or a server be on its way."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    settings = (
        f"listen=127.0.0.1:{taken}",
        f"mesos.master=127.0.0.1:{closed}",
        "spark.versions={3.5: {home: /nowhere}}",
    )
    code, found = checked(capsys, *settings)
    doubts = {key for key, finding in found.items() if finding["verdict"] == "warning"}
    assert code == 0
    assert {"listen", "mesos.master", "spark.versions.3.5"} <= doubts
    assert checked(capsys, f"mesos.master=127.0.0.1:{taken}")[1]["mesos.master"]["verdict"] == "ok"


def test_what_is_no_config_is_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With file, line and key, as at the start of a daemon."""
    file = tmp_path / "stoker.yaml"
    file.write_text("mesos:\n  port: 010\n")
    assert main(["config", "check", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"stoker: {file}:2: mesos.port: should be a whole number, found '010'\n"
    )
    assert main(["config", "check", "/dev/zero"]) == 2
    assert "too long" in capsys.readouterr().err


EC2 = (
    "mesos.master=127.0.0.1:5050", "mesos.cluster=clusters/elastic.yaml", "provider.name=ec2",
    "provider.cluster=ours", "provider.region=eu-west-1", "provider.image=ami-1",
)  # fmt: skip
COMMAND = (*EC2[:2], "provider={name: command, open: sh, close: sh, list: sh}")
HERE = "VMs cannot notify it that they are taken away"


@pytest.mark.parametrize(
    ("settings", "verdict", "says"),
    [
        ((), "ok", "none"),
        (("mesos.cluster=clusters/elastic.yaml",), "ok", "embedded"),
        (EC2, "warning", HERE),
        ((*EC2, "provider.url=https://stoker.example"), "ok", "ec2: can be asked"),
        ((*EC2, "leader.url=https://stoker.example", "provider.region=eu-west-11"), "warning",
         "region eu-west-11 is not known to boto3: did you mean eu-west-1?"),
        ((*EC2, "provider.user_data=none.sh"), "error", "none.sh: no such file"),
        ((*EC2, "provider.user_data=default.yaml"), "error", "default.yaml:1: should begin with #!"),
        ((*EC2, "mesos.master=embedded"), "error", "ec2 opens VMs whose agents need an external Mesos"),
        (COMMAND, "warning", HERE),
        ((*COMMAND[:2], "provider={name: command, open: sh, close: no-such, list: sh}"), "error",
         "provider.close: no-such: no such program"),
        ((*EC2, "mesos.cluster=clusters/paper.yaml"), "warning", "has no pools"),
    ],
)  # fmt: skip
def test_who_opens_vms(
    settings: tuple[str, ...], verdict: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Template, region and programs are looked at, and nobody is asked."""
    _, found = checked(capsys, *settings)
    assert (found["provider"]["verdict"], says in found["provider"]["what"]) == (verdict, True), found[
        "provider"
    ]


@pytest.mark.parametrize(
    ("settings", "verdict", "says"),
    [
        ((), "ok", "none"),
        (("budget={per_day: 150.0}",), "ok", "$150.00 a day (UTC)"),
        (("budget={per_day: 150.0, hold: true}",), "ok", "$150.00 a day (UTC), then no VM is opened"),
        (("budget={per_day: 20.0}",), "warning", "$20.00 a day, but fixed VMs cost $138.24"),
        (("mesos.cluster=clusters/demo.yaml", "budget={per_day: 1.0}"), "ok", "$1.00 a day (UTC)"),
        (("budget={dollars_per_day: 150.0}",), "ok", "$150.00 a day (UTC), then no VM is opened"),
        (("budget={dollars_per_month: 9.0}",), "ok", "limits per hour or month, or of pools"),
        (
            ("mesos.cluster=clusters/elastic.yaml", "budget={dollars_per_hour: 0.1}"),
            "warning",
            "dollars_per_hour: 0.1 is less than the cheapest VM costs, $0.24",
        ),
        (
            ("mesos.cluster=clusters/demo.yaml", "budget={pools: {gpu: {dollars_per_day: 1}}}"),
            "error",
            "budget.pools.gpu: there is no pool gpu in clusters/demo.yaml; "
            "its pools are m1.large, m1.xlarge, m2.xlarge",
        ),
    ],
)
def test_a_budget_is_held_against_what_is_always_there(
    settings: tuple[str, ...], verdict: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twelve VMs for a day are dearer than some budgets."""
    _, found = checked(capsys, *settings)
    assert (found["budget"]["verdict"], found["budget"]["what"]) == (verdict, says)


def test_pools_and_types_of_commitments_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown ones are errors, in one line with those that are there."""
    days = "vms: 1, since: 2026-01-01, until: 2026-12-31"
    for said, verdict, says in (
        (
            "pool: x",
            "error",
            "commitments.year.pool: there is no pool x in clusters/paper.yaml; it has no pools",
        ),
        ("type: m1.large", "ok", "year"),
    ):
        _, found = checked(capsys, f"commitments={{year: {{{said}, {days}}}}}")
        assert (found["commitments"]["verdict"], found["commitments"]["what"]) == (verdict, says)
        assert found["budget"]["verdict"] == "ok"


@pytest.mark.parametrize(
    ("settings", "verdict", "says"),
    [
        ((), "ok", "none: jobs may name any queue"),
        (("queues={prod: {queues: {etl: {}, adhoc: {}}}}",), "ok", "3, of which 2 accept jobs"),
        (("queues={prod: {weight: 3}}", "sharing={order: fair}"), "ok", "1, of which 1 accept jobs"),
        (("queues={prod: {weight: 3}}",), "warning",
         "prod: weights and guarantees have no effect unless fair is in sharing.order"),
        (("queues={prod: {guaranteed: {cpus: 90}}, dev: {guaranteed: {cpus: 90}}}", "sharing={order: fair}"),
         "warning", "180 cpus are guaranteed in all, and the cluster has 96 cpus"),
        (("queues={prod: {guaranteed: {cpus: 1}, queues: {a: {guaranteed: {memory: 1t}}}}}",), "warning",
         "1048576 MiB are guaranteed in all, and the cluster has 393216 MiB"),
    ],
)  # fmt: skip
def test_guarantees_are_held_against_what_is_there(
    settings: tuple[str, ...], verdict: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And weights against the order that would follow them."""
    code, found = checked(capsys, *settings)
    assert (code, found["queues"]["verdict"], found["queues"]["what"]) == (0, verdict, says)


@pytest.mark.parametrize(
    ("queues", "says"),
    [
        ("prod: {weight: 0}", "2: queues.prod.weight: should be greater than 0, found 0"),
        ("prod: {wieght: 2}", "2: queues.prod.wieght: unknown key; did you mean weight?"),
        ("prod: {most: {cpu: 2}}", "2: queues.prod.most.cpu: unknown key; did you mean cpus?"),
        ("prod: {}\n  prod: {}", "3: prod: duplicate key, first in line 2"),
        ("the lab: {}", "should be a queue's name: letters, digits, _ and -"),
        ("prod: {guaranteed: {cpus: 4}, most: {cpus: 2}}", "4 cpus are more than its most, 2"),
        ("prod: {most: {cpus: 2}, queues: {a: {guaranteed: {cpus: 1.5}}, b: {guaranteed: {cpus: 1.5}}}}",
         "prod: the guarantees below it are 3 cpus, more than its most, 2"),
    ],
)  # fmt: skip
def test_queues_that_cannot_be_are_told_with_their_line(
    queues: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As anything that is no config; a daemon would not start."""
    file = tmp_path / "stoker.yaml"
    file.write_text(f"queues:\n  {queues}\n")
    assert main(["config", "check", str(file)]) == 2
    assert says in capsys.readouterr().err


def test_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of a file that only its owner may read; then the API may be where everybody reaches it."""
    (tmp_path / "users.yaml").write_text("users: {ann: {role: admin, unix_user: no-such-user}}")
    (tmp_path / "users.yaml").chmod(0o640)
    own = f"users={{file: {tmp_path}/users.yaml}}"
    code, found = checked(capsys, own, "listen=0.0.0.0:0", "mesos.port=0")
    assert (code, found["users"]["verdict"], found["listen"]["verdict"]) == (1, "error", "ok")
    assert "users other than its owner may use it; chmod 600" in found["users"]["what"]
    (tmp_path / "users.yaml").chmod(0o600)
    code, found = checked(capsys, own, "mesos.port=0")
    assert (code, found["users"]["verdict"]) == (0, "warning")
    assert (
        "ann: their jobs are refused: unix_user: no-such-user: there is no such user"
        in found["users"]["what"]
    )
    assert "no user with the role admin has a token" in found["users"]["what"]
    code, found = checked(capsys, "users={see: all}", "mesos.port=0")
    assert found["users"]["what"] == "those of the store; they see all jobs"
    proxied = checked(capsys, "users={header: {from: [127.0.0.1]}}", "mesos.port=0")[1]["users"]
    assert (proxied["verdict"], "every user of this machine" in proxied["what"]) == ("warning", True)
