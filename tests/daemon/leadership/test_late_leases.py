"""One daemon with a lease: a database that is away, again and again, costs no job a launch or a try."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.daemon.cable import Cable
from tests.daemon.fleet import Daemon, Fleet, Starter, fleets
from tests.daemon.postgresql import empty_database, postgresql_process, postgresql_programs
from tests.waiting import PATIENCE, until

#: Seconds of a lease, and for how long the database is away: the lease ends meanwhile.
LEASE, AWAY = 2.0, 3.0
JOBS = 12


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Starter]:
    """A factory of daemons on a Mesos that holds no agent for lost, however busy the machine is."""
    with fleets(tmp_path, max_agent_ping_timeouts=1000) as make:
        yield make


def test_a_database_that_is_away_costs_no_launch(fleet: Starter, postgresql_url: str) -> None:
    """Many jobs are launched when it goes: each starts its driver once, with the executors that it has."""
    server = urlsplit(postgresql_url)
    with contextlib.closing(Cable(server.port or 0)) as cable:
        far = postgresql_url.replace(f":{server.port}", f":{cable.port}")
        # No launch is given up on a slow machine: what is launched again here was refused.
        group = fleet(database=far, leader={"lease": LEASE}, mesos={"launch_timeout": 10 * PATIENCE})
        daemon = group.add()
        until(daemon.leads, daemon.log)
        jobs = [group.submit(daemon, 0.5) for _ in range(JOBS)]
        for _ in range(2):
            cable.cut()
            time.sleep(AWAY)
            cable.mend()
            until(daemon.leads, daemon.log)
        all_done_once(group, daemon, jobs)


@pytest.mark.slow
@pytest.mark.skipif(postgresql_programs() is None, reason="PostgreSQL is not installed")
def test_two_restarts_of_the_database_under_load_cost_no_launch(fleet: Starter) -> None:
    """PostgreSQL is restarted, then crashes and is away for two leases, while 43 jobs start and end."""
    with postgresql_process() as server:
        group = fleet(
            database=empty_database(server.url),
            leader={"lease": 3.0},
            mesos={"launch_timeout": 10 * PATIENCE},
        )
        daemon = group.add()
        until(daemon.leads, daemon.log)
        jobs = [group.submit(daemon, 0.5) for _ in range(43)]
        for mode, away in (("fast", 0.0), ("immediate", 2 * AWAY)):
            before = group.drivers()
            server.stop(mode)
            time.sleep(away)
            server.start()
            until(daemon.leads, daemon.log)
            until(lambda: group.drivers() > before, daemon.log)  # noqa: B023 - called at once
        all_done_once(group, daemon, jobs)


def all_done_once(group: Fleet, daemon: Daemon, jobs: list[str]) -> None:
    """Each job finishes with the one driver that it started; no launch was refused or lost by us."""
    for job_id in jobs:
        job = group.wait(daemon, job_id, "finished", "failed", "killed")
        assert (job["state"], job["losses"]) == ("finished", 0), (job, daemon.log())
        # Offers end while nothing can be stored, and what cannot be stored is undone: no refusal of ours.
        lost = {task["message"] for task in job["tasks"] if task["state"] == "lost"}
        expected = ("offer", "launch was undone", "cannot be used")
        assert all(any(part in message for part in expected) for message in lost), lost
    assert group.drivers() == len(jobs)
    bad = ("could not be started", "launched afresh", "no longer leading", "Traceback")
    assert not [told for told in bad if told in daemon.log()], daemon.log()
