"""A restart with more memory goes on from the job store, under another daemon."""

from dataclasses import replace
from pathlib import Path

from conf.schema import JobSpec
from daemon.store.job_store import Store
from environment.model.messages import events as ev
from tests.builders import make_job, make_vm
from tests.environment.two_worlds.world import World, launched

HEAP = "Command exited with status 52 (the heap): java.lang.OutOfMemoryError: Java heap space"
WHY = "its driver exited with code 1: a.B: ExecutorLostFailure (executor 0 exited caused by its tasks)"


def test_another_daemon_starts_it_with_more_memory_and_not_twice(tmp_path: Path) -> None:
    """The store is closed while the failed attempt ends; the next daemon has the size and the count."""
    vms = [make_vm("vm-1")]
    first, url = World(vms), f"sqlite:///{tmp_path / 'stoker.db'}"
    job = replace(make_job("job-1", 2, memory_mib=3072), memory_retry=True)
    store = Store(url)
    store.jobs.new.add_one(JobSpec(app="/app.py"), lambda _: job, None, 0.0)
    first.run(job)
    first.tell("failed", "job-1.0", message=HEAP)
    first.send(ev.DriverEnded(first.now, "job-1", 1, WHY, cleared=True))
    kept = first.kept()
    store._access.write(store.jobs.saving(kept.jobs, kept.executors, ()))
    store.close()

    store, second = Store(url), World(vms)
    found = store.jobs.open.take_up(0.0)
    assert found.jobs == list(kept.jobs)
    second.send(ev.Restored(second.now, tuple(found.jobs), tuple(found.tasks), second.model.options))
    second.subscribe()
    second.tell("killed", "job-1.1")
    second.offer()
    assert launched(second.decide()) == {"vm-1": ["job-1.2", "job-1.3"]}
    assert {task.resources.memory_mib for task in second.model.tasks("job-1") if not task.ended} == {8192}
    more = second.job().more_memory
    assert more is not None
    assert (more.before_mib, more.after_mib, second.job().retried) == (3072, 8192, 0)
    assert second.model.retries_left("job-1", "memory") == 0
    store.close()
