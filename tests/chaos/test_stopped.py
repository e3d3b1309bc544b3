"""A daemon on VMs that come and go, stopped at some points of what it does; `make chaos` takes every one."""

from pathlib import Path

import pytest

from tests.chaos.stopped import STORIES, stopped_everywhere, story


@pytest.mark.parametrize("name", STORIES)
def test_a_story_without_a_stop_has_many_points(name: str, tmp_path: Path) -> None:
    """Whatever the provider does, it ends well; there is something to stop."""
    told, points = story(tmp_path, STORIES[name])
    assert told == []
    assert len(points) >= 90
    assert {"before OpenVm", "after open", "before CloseVm", "after close", "before a save"} <= {*points}


def test_a_daemon_that_is_stopped_anywhere_leaves_nothing_open() -> None:
    """No job is lost, and no VM is opened twice or forgotten."""
    played, lost = stopped_everywhere(every=29, first=11)
    assert (played > 20, lost) == (True, [])
