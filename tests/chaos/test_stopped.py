"""A daemon on VMs that come and go, stopped at some points of its work; `make chaos` takes every one."""

from pathlib import Path

import pytest

from tests.chaos.played import Points, World
from tests.chaos.stopped import JOBS, STORIES, Run, stopped_everywhere, story


@pytest.mark.parametrize("name", STORIES)
def test_a_story_without_a_stop_has_many_points(name: str, tmp_path: Path) -> None:
    """The story ends well for any behaviour of the provider; there is something to stop."""
    told, points = story(tmp_path, STORIES[name])
    assert told == []
    assert len(points) >= 90
    assert {"before OpenVm", "after open", "before CloseVm", "after close", "before a save"} <= {*points}


def test_who_waits_for_vms_does_so_after_a_stop(tmp_path: Path) -> None:
    """The job is not decided again, and retains its reservation on the VMs that boot."""
    world = World((), Points())
    run = Run(world, tmp_path)
    run.restore()
    run.submit(JOBS[0])
    run.step()
    run.step()
    before = run.store.vms.reservations()
    run.close()
    run = Run(world, tmp_path)
    run.restore()
    assert not run.service._parts.base.model.requests()
    run.step()
    job = run.service._parts.base.model.job("job-1")
    assert job is not None
    assert job.reason.startswith("waits for p-1 and p-2 to boot")
    assert [reserved.vm_ids for reserved in before] == [("p-1", "p-2")]
    assert run.store.vms.reservations() == before
    run.close()


def test_a_daemon_that_is_stopped_anywhere_leaves_nothing_open() -> None:
    """No job is lost, and no VM is opened twice or forgotten."""
    played, lost = stopped_everywhere(every=29, first=11)
    assert (played > 20, lost) == (True, [])
