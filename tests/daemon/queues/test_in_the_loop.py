"""Queues of a scheduler with an unresponsive master: waiting jobs are counted, shown and limited."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conf.loader import build
from conf.schema import Config, JobSpec
from daemon.cli.cluster import cluster_tables
from daemon.core.errors import RejectedError
from daemon.core.queue_status import QueueStatus
from daemon.http.server.scheduler_interface import submit_one
from daemon.scheduler.build import service_of
from daemon.scheduler.foundation import TermInputs
from daemon.scheduler.service import Service
from daemon.schemas.cluster import cluster_body
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import Added, SubmittedSpec
from framework.mesos.master_link import MasterLink
from framework.mesos.session import SessionOptions
from tests.benchmarks.daemon_of_commands import CommandLauncher
from tests.daemon.ports import free_port
from tests.waiting import until

QUEUES = {
    "prod": {
        "weight": 3,
        "most": {"waiting": 3},
        "queues": {"etl": {"most_per_user": {"waiting": 2}}, "ml": {}},
    }
}


@contextmanager
def running(store: Store, folder: Path, **config: Any) -> Iterator[Service]:
    """A scheduler that runs, with these queues unless others are given."""
    config = {"data_dir": str(folder), "queues": QUEUES, "sharing": {"order": ["priority", "fair"]}, **config}
    made = build(Config, config, "config")
    connect = partial(MasterLink, SessionOptions(master=f"127.0.0.1:{free_port()}"))
    service = service_of(
        TermInputs(made, store, CommandLauncher(made, folder, "127.0.0.1"), connect, data_dir=folder)
    )
    loop = threading.Thread(target=service.run)
    loop.start()
    try:
        yield service
    finally:
        service.stop()
        loop.join()


def submit(service: Service, queue: str, owner: str, **asked: Any) -> str:
    """Submit a job; return its id or raise its refusal."""
    spec = JobSpec(app="/a.py", queue=queue, owner=owner, **asked)
    added: Added = submit_one(service, SubmittedSpec(spec))
    return added[0].job.id


def queue(service: Service, path: str) -> QueueStatus:
    """How a queue does."""
    return service.queues.one(path)


def test_who_waits_is_counted_until_it_does_not(store: Store, tmp_path: Path) -> None:
    """Waiting jobs count towards a queue's limit until they end.

    Jobs accepted before a restart count towards the limit after it.
    """
    with running(store, tmp_path) as service:
        first = submit(service, "prod.etl", "ann")
        submit(service, "prod.etl", "ann")
        until(lambda: service._parts.queues.waiting.waiting("prod", "ann") == 2)
    with running(store, tmp_path) as service:
        until(lambda: service._parts.queues.waiting.waiting("prod", "ann") == 2)
        with pytest.raises(RejectedError, match=r"each user of queue prod\.etl may have 2 jobs waiting"):
            submit(service, "prod.etl", "ann")
        submit(service, "prod.ml", "bob")
        with pytest.raises(RejectedError, match="queue prod may have 3 jobs waiting"):
            submit(service, "prod.ml", "cy")
        service.kill(first)
        submit(service, "prod.ml", "cy")
        service.queues.patch("prod", {"most": {"waiting": None}})
        submit(service, "prod.etl", "ann")


def test_the_cluster_says_who_shares_it(store: Store, tmp_path: Path) -> None:
    """The cluster reports the order and the number of queues, and nothing without sharing."""
    with running(store, tmp_path) as service:
        shared = cluster_body(service.cluster())
    with running(store, tmp_path, queues={}, sharing=None) as service:
        alone = cluster_body(service.cluster())
    assert (shared.order, shared.queues) == (["priority", "fair"], 3)
    assert (alone.order, alone.queues) == ([], 0)
    pool = {
        "name": "p", "type": "t", "cpus": 1, "memory_mib": 1, "resources": {}, "price_per_hour": 1, "max": 1,
        "open": 0, "note": "",
    }  # fmt: skip
    said = [str(part) for part in cluster_tables.cluster({**shared.model_dump(), "pools": [pool]}, True)]
    assert "Shared by 3 queues, in order of priority, fair: `stoker queue list` shows their shares." in said
