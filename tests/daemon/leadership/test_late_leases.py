"""One daemon with a lease: a database that is away, again and again, costs no job a launch or a try."""

import contextlib
import time
from urllib.parse import urlsplit

from tests.daemon.cable import Cable
from tests.daemon.fleet import Starter
from tests.waiting import PATIENCE, until

#: Seconds of a lease, and for how long the database is away: the lease ends meanwhile.
LEASE, AWAY = 2.0, 3.0
JOBS = 12


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
        for job_id in jobs:
            job = group.wait(daemon, job_id, "finished", "failed", "killed")
            assert (job["state"], job["losses"]) == ("finished", 0), (job, daemon.log())
            # Offers end while nothing can be stored, and what cannot be stored is undone: no refusal of ours.
            lost = {task["message"] for task in job["tasks"] if task["state"] == "lost"}
            expected = ("offer", "launch was undone", "cannot be used")
            assert all(any(part in message for part in expected) for message in lost), lost
        assert group.drivers() == JOBS
        bad = ("could not be started", "launched afresh", "no longer leading", "Traceback")
        assert not [told for told in bad if told in daemon.log()], daemon.log()
