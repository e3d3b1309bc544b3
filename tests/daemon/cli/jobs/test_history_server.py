"""Event logs that `stoker history` selects; `tests/doors/test_history.py` checks that it shows them."""

import os
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conf.schema import Config, JobSpec
from daemon.cli import main
from daemon.cli.jobs.history_server import _await, _give, _named, _server
from daemon.store.job_store import Store
from environment.types import Job
from framework.host.unix_users import find_account
from tests.builders import make_job
from tests.waiting import until

SERVER = """#!/bin/sh
echo "HistoryServer: Bound at http://here:4711; $(id -un) in $(pwd), $(stat -c %U ..), $(ls ../logs/*)"
touch made ../logs/made
touch ../server.log.new ../../stolen 2>/dev/null
exec sleep 600
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_nothing_is_done_as_root_in_a_folder_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job could put a link to a file of root's there: a folder is given after its content."""
    account, given = find_account("nobody"), list[Path]()
    real = os.chown

    def chown(path: Path, *arguments: Any, **more: Any) -> None:
        assert not any(parent in given for parent in Path(path).parents)
        real(path, *arguments, **more)
        given.append(Path(path))

    monkeypatch.setattr(os, "chown", chown)
    with tempfile.TemporaryDirectory() as name:
        folder, home = Path(name, "stage"), Path(name, "spark")
        Path(name).chmod(0o711)
        logs, program = folder / "logs", home / "bin/spark-class"
        (logs / "eventlog_v2_app-1").mkdir(parents=True)
        (logs / "eventlog_v2_app-1/events_1_app-1").write_text("{}")
        program.parent.mkdir(parents=True)
        program.write_text(SERVER)
        program.chmod(0o755)
        _give(logs, account)
        assert Path(name) not in given
        spark: Any = SimpleNamespace(home=str(home), java_home="")
        with _server(spark, logs, "127.0.0.1", 0, account) as (process, printed):
            assert _await(process, printed, "127.0.0.1") == "http://127.0.0.1:4711"
            until(lambda: (logs / "made").exists() and (folder / "own/made").exists())
            said = printed.read_text()
        assert f"nobody in {folder}/own, root, events_1_app-1" in said
        for ours in (printed, folder):
            assert ours.stat().st_uid == 0
        assert sorted(path.name for path in folder.iterdir()) == ["logs", "own", "server.log"]


def named_job(name: str, job_id: str) -> Job:
    """A job of that name."""
    return replace(make_job(job_id), name=name)


def test_a_job_is_named_by_its_name_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As wherever ids are taken: the one that is meant, or none, and why."""
    config, data_dir = Config(data_dir=str(tmp_path)), ["--set", f"data_dir={tmp_path}"]
    assert main(["history", "etl", *data_dir]) == 2
    assert "holds no job store" in capsys.readouterr().err
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    for name in ("etl", "etl", "daily"):
        store.jobs.new.add_one(JobSpec(app="/a.py", name=name), partial(named_job, name), None, 1.0)
    store.close()
    assert _named("daily", config, tmp_path) == "job-3"
    assert main(["history", "etl", *data_dir]) == 2
    assert "2 jobs that have not ended are called etl: job-2, job-1; give the id" in capsys.readouterr().err
    assert main(["history", "../..", *data_dir]) == 2
    assert "there is no job ../.." in capsys.readouterr().err
