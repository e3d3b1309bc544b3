"""Nothing that a policy is shown can be changed by it: decisions are checked on the same view."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from environment.pools import Openings
from environment.resources import Resources
from environment.types import PlacementRequest
from environment.view import ClusterView
from tests.builders import make_job, make_request, make_view, make_vms


def view() -> ClusterView:
    """A view with all its parts, and a job that runs."""
    vms = make_vms(2)
    shown = make_view(vms).with_placement(make_request(1), (0,))
    openings = Openings(np.array([True, False]), np.array([0.0, 60.0]))
    out = {vms[1].id: "is left out"}
    return replace(shown, openings=openings, left_out=out, leaves_at={vms[0].id: 9.0})


def parts(value: Any, path: str, seen: set[int], deep: int = 0) -> Iterator[tuple[str, Any]]:
    """All that can be reached from a value by public attributes, elements and values."""
    if deep > 8 or id(value) in seen or isinstance(value, str | bytes | int | float | type(None)):
        return
    seen.add(id(value))
    yield path, value
    if isinstance(value, Mapping):
        for each in value.values():
            yield from parts(each, f"{path}[]", seen, deep + 1)
    elif isinstance(value, tuple):
        for each in value:
            yield from parts(each, f"{path}[]", seen, deep + 1)
    elif type(value).__module__.startswith("environment."):
        for name in dir(type(value)):
            if not name.startswith("_") and not callable(each := getattr(value, name)):
                yield from parts(each, f"{path}.{name}", seen, deep + 1)


#: Made anew each time they are asked for.
COPIES = (".amounts", ".others")


def test_arrays_and_mappings_are_read_only() -> None:
    """Also those that follow from others, and those of jobs and VMs, which all policies share."""
    seen: set[int] = set()
    shown = view()
    found = dict(parts(shown, "view", seen)) | dict(
        parts(PlacementRequest(make_job(executors=2), 2), "request", seen)
    )
    assert len(found) > 20
    for path, value in found.items():
        if isinstance(value, np.ndarray):
            assert not value.flags.writeable, path
        elif isinstance(value, Mapping) and not path.endswith(COPIES):
            with pytest.raises(TypeError):
                value.update({})  # type: ignore[attr-defined]
        assert not isinstance(value, list | set), path


@pytest.mark.parametrize(
    "change",
    [
        lambda amounts: amounts.__setitem__("cpus", 1),
        lambda amounts: amounts.pop("cpus"),
        lambda amounts: amounts.update(cpus=1),
        lambda amounts: amounts.clear(),
        lambda amounts: amounts.__ior__({"cpus": 1}),
        lambda amounts: amounts.__delitem__("cpus"),
    ],
)
def test_no_amount_is_changed(change: Any) -> None:
    """A policy that counts down in the amounts of a job or a VM is told so, and copies them."""
    size, given = Resources.of(2, 1024), {"cpus": 5}
    with pytest.raises(TypeError, match="does not change; dict"):
        change(size.thousandths)
    assert size == Resources.of(2, 1024)
    other = Resources(given)
    given["cpus"] = 7
    assert other.get("cpus") == 5
