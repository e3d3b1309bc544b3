"""Room shown by a view: computed once per request, anew for each other request."""

import numpy as np
import pytest

from environment.resource_arrays import ResourceArrays
from environment.resources import Resources
from environment.types import PlacementRequest
from environment.view import ClusterView
from tests.builders import make_job, make_vms


def test_room_is_looked_for_once_for_the_same_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can write to it; another request, and a view that was changed, have room of their own."""
    looks: list[Resources] = []
    look = ResourceArrays.room

    def counting(self: ResourceArrays, each: Resources) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        looks.append(each)
        return look(self, each)

    monkeypatch.setattr(ResourceArrays, "room", counting)
    vms = make_vms(3, cpus=4)
    free = ResourceArrays.of([vm.resources for vm in vms])
    view = ClusterView(0.0, vms, free, np.zeros(3, np.int64))
    one, two = (PlacementRequest(make_job(f"job-{n}", 2, float(n)), 2) for n in (1, 2))
    assert view.room_for(one) is view.room_for(one)
    assert len(looks) == 1
    assert not view.room_for(one).flags.writeable
    assert view.room_for(two).tolist() == [2, 2, 2]
    assert view.room_for(one).tolist() == [4, 4, 4]
    assert view.with_placement(one, (0, 0)).room_for(one).tolist() == [2, 4, 4]
