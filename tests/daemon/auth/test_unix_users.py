"""Unix users of jobs: refused where the daemon cannot switch users, used where it runs as root."""

import os
import pwd
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from stoker import ProblemError, Stoker

from conf.schema import Config
from conf.schema.users import UsersSection
from daemon.cli.operate.orphans import descendants, end_all
from daemon.core.identity import UserRecord
from daemon.core.tokens import make_token
from daemon.disk.run_as import RunAs, own_rights
from daemon.maintenance.user_checks import cannot_run
from framework.host.process_tree import adopt_orphans
from framework.host.unix_users import cannot, find_account
from tests.chaos.scene import SPARK
from tests.daemon.fleet import Daemon
from tests.waiting import until

#: Users that machines have, and as whom nothing runs here otherwise.
_OTHERS = ("daemon", "bin", "mail")


def another() -> str:
    """Name of a Unix user of this machine that runs no jobs otherwise."""
    for name in _OTHERS:
        try:
            return find_account(name).name
        except KeyError:
            continue
    pytest.skip("this machine has no other users")


def test_without_root_nobody_is_switched_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the daemon's own user; on agents elsewhere Mesos does it."""
    name, rights = another(), RunAs(None, (), None)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(ValueError, match=f"unix_user: {name}: only a daemon that root runs"):
        rights.of(name)
    assert rights.of(name, here=False).account == find_account(name)
    # Of a user whom only the agents know, the daemon's files are looked at as of a job without a user.
    usual = RunAs(find_account(name), (), None)
    assert usual.of("no-such-user", here=False).account == usual.account
    assert rights.of("") is rights
    monkeypatch.setattr(os, "geteuid", lambda: find_account(name).uid)
    assert rights.of(name).account is None
    users = [UserRecord("ann", "submit", "no-such-user"), UserRecord("bob", "submit")]
    (why,) = cannot_run(users, rights, here=True)
    assert (
        why
        == "ann: their jobs are refused: unix_user: no-such-user: there is no such user on the daemon's host"
    )


@pytest.mark.parametrize("here", [True, False])
def test_nobody_is_root_unless_the_config_says_so(tmp_path: Path, here: bool) -> None:
    """Neither here nor elsewhere."""
    with pytest.raises(ValueError, match=r"no job runs as root unless users\.root allows it"):
        own_rights(Config(users=UsersSection()), tmp_path).of("root", here=here)
    rights = own_rights(Config(users=UsersSection(root=True)), tmp_path)
    if os.geteuid() == 0 or not here:
        assert rights.of("root", here=here).root


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user of this machine may enter."""
    made = Path(tempfile.mkdtemp(prefix="stoker-users-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_a_job_runs_as_its_owners_unix_user(folder: Path) -> None:
    """Driver and executors run as the owner's Unix user, also when an operator submits for the owner.

    An owner without a Unix user runs jobs as the config says.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can run jobs as another user")
    account = find_account(another())
    pythons = [Path(found) for found in (sys.executable, shutil.which("python3", path="/usr/bin")) if found]
    python = next((one for one in pythons if not cannot(account, read=[one])), None)
    if python is None or (why := cannot(account, enter=[folder], read=[SPARK / "home/bin/spark-class"])):
        pytest.skip(f"others can run no Python here, or may not read the checkout: {python or why}")
    home = {"home": str(SPARK / "home"), "java_home": str(SPARK / "java"), "python": str(python)}
    tokens = {name: make_token(0.0) for name in ("ann", "bob", "oper", "root")}
    unix = {"ann": account.name, "root": "root"}
    users = {
        name: {
            "role": "operate" if name == "oper" else "submit",
            "unix_user": unix.get(name, ""),
            "tokens": [{"id": record.id, "sha256": record.sha256}],
        }
        for name, (_, record) in tokens.items()
    }
    file = folder / "users.yaml"
    file.write_text(yaml.safe_dump({"users": users}))
    file.chmod(0o600)
    cluster = {"vms": [{"type": "small", "cpus": 4, "memory": "8g", "price_per_hour": 0.1, "count": 2}]}
    (folder / "cluster.yaml").write_text(yaml.safe_dump(cluster))
    (folder / "started").touch()
    (folder / "started").chmod(0o666)
    config = {
        "data_dir": str(folder / "data"),
        "users": {"file": "users.yaml"},
        "mesos": {"cluster": str(folder / "cluster.yaml"), "port": 0},
        "spark": {"default": "0.1", "versions": {"0.1": home}, "folder": str(folder / "none")},
    }
    adopt_orphans()
    before, daemon = set(descendants()), Daemon(folder, "daemon", config)
    spec = {
        "app": str(SPARK / "home/driver.py"), "args": ["0.1", "0"], "executors": 1, "memory": 2048,
        "env": {"CHAOS_LOG": str(folder / "started"), "CHAOS_KEY": "key", "CHAOS_SCRIPT": "id -un > whoami"},
    }  # fmt: skip
    with ExitStack() as stack:
        stack.callback(lambda: end_all(lambda: [pid for pid in descendants() if pid not in before]))
        clients = {}
        for name, (token, _) in tokens.items():
            (folder / name).touch(0o600)
            (folder / name).write_text(token)
            clients[name] = stack.enter_context(Stoker(daemon.url, folder / name))
        stack.callback(daemon.end, signal.SIGTERM)
        daemon.up()
        until(daemon.leads, daemon.log)
        with pytest.raises(ProblemError, match="no job runs as root"):
            clients["root"].submit_spec(spec)
        asked: tuple[tuple[str, dict[str, str]], ...] = (("ann", {}), ("bob", {}), ("oper", {"owner": "ann"}))
        jobs = [clients[who].submit_spec({**spec, **more})["id"] for who, more in asked]
        oper = clients["oper"]
        until(
            lambda: all(oper.job(job)["state"] == "finished" for job in jobs),
            lambda: (oper.jobs(limit=5), daemon.log()),
        )
    usual = next(name for name in ("stoker-jobs", "nobody", "root") if _is_there(name))
    for number, name in enumerate((account.name, usual, account.name), 1):
        assert (folder / f"data/jobs/job-{number}/driver/whoami").read_text().strip() == name
        sandboxes = [
            path for path in (folder / "data/mesos").rglob("stdout") if f"job-{number}.0" in str(path)
        ]
        assert [pwd.getpwuid(path.stat().st_uid).pw_name for path in sandboxes] == [name]


def _is_there(name: str) -> bool:
    try:
        return bool(find_account(name))
    except KeyError:
        return False
