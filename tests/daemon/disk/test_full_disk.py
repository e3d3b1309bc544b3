"""A daemon with a full disk of its own and a healthy PostgreSQL."""

import resource

from tests.daemon.fleet import Daemon, Starter
from tests.waiting import until


def limit(daemon: Daemon, size: int) -> None:
    """Let no file of the daemon grow over `size` bytes, as on a disk that is full."""
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def reasons(daemon: Daemon, job_id: str) -> str:
    """Why a job is as it is."""
    answer = daemon.get(f"/v1/jobs/{job_id}")
    return "" if answer is None else str(answer.json()["reason"])


def test_nothing_is_launched_with_a_full_disk(postgresql_url: str, fleet: Starter) -> None:
    """The queue waits and says why, nothing is launched and dropped; with room again it goes on by itself."""
    group = fleet(database=postgresql_url)
    daemon = group.add()
    until(daemon.leads, daemon.log)
    limit(daemon, 1024)
    until(lambda: not daemon.leads(), daemon.log)
    ready = daemon.get("/readyz")
    assert ready is not None
    assert "cannot be written: File too large" in ready.json()["checks"]["disk"]
    job_id = group.submit(daemon, 0.1)
    until(lambda: "nothing is launched" in reasons(daemon, job_id), daemon.log)
    answer = daemon.get(f"/v1/jobs/{job_id}")
    assert answer is not None
    assert answer.json()["tasks"] == []
    limit(daemon, resource.RLIM_INFINITY)
    assert group.wait(daemon, job_id, "finished", "failed")["state"] == "finished"
