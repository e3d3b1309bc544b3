"""Event logs that `stoker history` selects; `tests/doors/test_history.py` checks that it shows them."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from conf.schema import Config, JobSpec
from daemon.cli import main
from daemon.cli.jobs.history_server import _named
from daemon.store.job_store import Store
from environment.types import Job
from tests.builders import make_job


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
