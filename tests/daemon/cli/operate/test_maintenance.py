"""`stoker backup`, `restore`, `doctor` and `prune`: output and exit codes."""

import contextlib
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.auth.user_directory import Directory
from daemon.cli import main
from daemon.store.job_store import Store
from environment.model.cluster_model import Changes
from tests.daemon.cli.conftest import Daemon
from tests.daemon.store.test_job_store import submit, url_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with three jobs, of which two are over."""
    tmp_path.chmod(0o700)
    with contextlib.closing(Store(url_of(tmp_path))) as store:
        for n in range(3):
            record = submit(store)
            if n < 2:
                over = replace(record, state="finished", finished_at=time.time() - 3600 * (n + 1))
                store.changes.save(Changes((over,), ()))
    return tmp_path


def run(folder: Path, *arguments: str) -> int:
    """Run a command on that folder."""
    return main([*arguments, "--set", f"data_dir={folder}"])


def test_a_backup_is_made_and_restored(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A backup is made and restored; it reports its contents, and a second restore needs --force."""
    copy = folder / "copy.db"
    assert run(folder, "backup", str(copy)) == 0
    assert f"{copy}: 3 jobs, " in capsys.readouterr().out
    assert run(folder, "backup", str(copy)) == 2
    assert "stoker: " in capsys.readouterr().err
    assert run(folder, "backup", str(copy), "--force", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 3
    assert run(folder, "restore", str(copy)) == 0
    assert "The previous data is now" in capsys.readouterr().out
    assert run(folder, "restore", str(folder / "none.db")) == 2


def test_postgresql_has_tools_of_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are named, the password is not."""
    url = "postgresql://stoker:hidden@127.0.0.1/stoker"
    for command, tool in (("backup", "pg_dump"), ("restore", "pg_restore")):
        assert run(folder, command, "x.db", "--set", f"database={url}") == 2
        error = capsys.readouterr().err
        assert tool in error
        assert "hidden" not in error


def test_the_doctor_ends_with_0_1_or_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For all is well, something is wrong, and cannot tell."""
    assert run(folder, "doctor") == 0
    assert "All is well." in capsys.readouterr().out
    folder.chmod(0o755)
    assert run(folder, "doctor", "-o", "json") == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["well"]
    assert report["findings"][0]["check"] == "permissions"
    assert run(folder, "doctor", "--repair") == 0
    assert "mended" in capsys.readouterr().out
    assert run(folder / "nowhere", "doctor") == 2


def test_the_doctor_asks_who_opens_vms(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The doctor asks an external VM provider for its VMs and reports the reason if it lists none."""
    lists = folder / "list"
    lists.write_text('#!/bin/sh\necho \'{"machines": [{"id": "a", "lease": "l", "pool": "p"}]}\'\n')
    lists.chmod(0o700)
    (folder / "stoker.yaml").write_text(
        "mesos: {master: 10.0.0.1:5050, cluster: clusters/elastic.yaml}\n"
        "provider: {name: command, open: sh, close: sh, list: ./list}\n"
    )
    settings = ("--config", str(folder / "stoker.yaml"))
    assert run(folder, "doctor", *settings) == 0
    assert ", VMs of the provider 1, " in capsys.readouterr().out
    lists.write_text("#!/bin/sh\necho no rights >&2\nexit 1\n")
    assert run(folder, "doctor", *settings) == 1
    assert "provider: it does not list its VMs: list (./list): no rights\n" in capsys.readouterr().out
    lists.unlink()
    assert run(folder, "doctor", *settings) == 1
    assert "provider.list: ./list: no such program" in capsys.readouterr().out


def test_pruning_says_what_would_go_and_then_does_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the options, or by the config."""
    assert run(folder, "prune") == 0
    assert "0 jobs are gone; 2 that are over are kept." in capsys.readouterr().out
    assert run(folder, "prune", "--older-than", "90m", "--dry-run", "-o", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["jobs"], answer["kept"], answer["dry_run"]) == (1, 1, True)
    assert run(folder, "prune", "--older-than", "90m") == 0
    assert "1 job is gone; 1 that is over is kept." in capsys.readouterr().out
    assert run(folder, "prune", "--set", "retention.jobs=0") == 0
    assert "1 job is gone; 0 that" in capsys.readouterr().out


@pytest.mark.parametrize("bad", [["--older-than", "soon"], ["--size", "many"], ["--keep", "-1"]])
def test_bad_options_are_told(folder: Path, bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A bad option is refused in one line with the right form."""
    assert run(folder, "prune", *bad) == 2
    assert bad[0] in capsys.readouterr().err


def test_doctor_looks_at_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The doctor checks users of the store and of the file: users unable to run jobs, and a missing admin."""
    with (
        contextlib.closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as store,
        contextlib.closing(Directory(store.users)) as known,
    ):
        known.put("ann", "submit", "no-such-user", None)
    arguments = ["doctor", "--set", f"data_dir={tmp_path}", "-o", "json", "--set"]
    assert main([*arguments, "users={}"]) == 1
    found = [
        one["what"] for one in json.loads(capsys.readouterr().out)["findings"] if one["check"] == "users"
    ]
    assert [what[:40] for what in found] == [
        "no user with the role admin has a token,", "ann: their jobs are refused: unix_user: "
    ]  # fmt: skip
    main([*arguments, "users={file: nowhere.yaml}"])
    assert "nowhere.yaml: cannot be read: No such file" in capsys.readouterr().out


def test_names_of_a_jobs_files_steer_no_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be removed is named by a path that the job chose."""

    def stays(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", f"{path}/\x1b]0;owned\x07\x9b2J")

    monkeypatch.setattr("daemon.maintenance.pruning.remove", stays)
    for job in ("job-1", "job-2"):
        (folder / "jobs" / job).mkdir(parents=True)
    assert run(folder, "prune", "--older-than", "1m") == 0
    error = capsys.readouterr().err
    assert r"\x1b]0;owned\x07\x9b2J" in error
    assert error.replace("\n", "").isprintable()


def test_the_doctor_looks_at_the_daemon_of_the_environment(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is kept here, at that alone: whether it answers and is ready."""
    nowhere = ["doctor", "--set", f"data_dir={tmp_path / 'nowhere'}"]
    assert main(nowhere) == 0
    assert "Looked at: daemon 1." in capsys.readouterr().out
    daemon.cast.ready = False
    assert main(nowhere) == 1
    assert "it is not ready: " in capsys.readouterr().out
    monkeypatch.setenv("STOKER_URL", "http://127.0.0.1:9")
    assert main(nowhere) == 1
    assert "daemon: http://127.0.0.1:9: " in capsys.readouterr().out
    for blank in ("", " "):  # as without one
        monkeypatch.setenv("STOKER_URL", blank)
        assert main(nowhere) == 2
    monkeypatch.delenv("STOKER_URL")
    assert main(nowhere) == 2
