"""Placement as under Cluster Autoscaler, computed by hand."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from agents.registry import create
from environment.pools import Openings
from environment.types import Place, Vm, Wait
from environment.view import ClusterView
from tests.builders import make_request, make_view, make_vm


def vm(name: str, cpus: float, memory_mib: int, price: float = 0.1) -> Vm:
    """A VM of the type that its name begins with."""
    return replace(make_vm(name, cpus, memory_mib, price), type=name.partition("-")[0])


def view_of(vms: Sequence[Vm], is_open: Sequence[bool], free_cpus: Sequence[int]) -> ClusterView:
    """VMs of which some are open."""
    view = make_view(list(vms), free_cpus=list(free_cpus))
    return view.changed(openings=Openings(np.array(is_open), np.zeros(len(vms))))


def placed(view: ClusterView, executors: int, **options: object) -> list[str]:
    """Names of the VMs of a job's executors of a core and 1 GiB."""
    decision = create("cluster_autoscaler", options).decide(view, [make_request(executors, 1, 1024)])
    assert isinstance(decision, Place), decision
    return [view.vms[i].name for i in decision.placement]


OPEN = [vm("a-1", 4, 4096), vm("a-2", 4, 4096)]


def test_open_vms_are_spread_over_or_packed() -> None:
    """As kube-scheduler scores: least allocated by default, or most allocated."""
    view = view_of(OPEN, [True, True], [1, 4])
    assert placed(view, 2) == ["a-2", "a-2"]
    assert placed(view, 1, scoring="pack") == ["a-1"]
    assert placed(view, 4, scoring="pack") == ["a-1", "a-2", "a-2", "a-2"]


CLOSED = [vm("large-1", 8, 8192, 0.2), vm("odd-1", 3, 8192, 0.1), vm("small-1", 2, 2048, 0.3)]


@pytest.mark.parametrize(
    ("executors", "expander", "opened"),
    [
        (2, "least_waste", ["small-1"] * 2),
        (8, "least_waste", ["large-1"] * 8),
        (3, "least_waste", ["small-1"] * 2 + ["odd-1"]),
        (2, "priority", ["odd-1"] * 2),
        (5, "priority", ["odd-1"] * 3 + ["large-1"] * 2),
    ],
)
def test_the_expander_chooses_the_type_that_is_opened(
    executors: int, expander: str, opened: list[str]
) -> None:
    """That with the least share of its cpus and memory unused, or the cheapest one; then the next."""
    view = view_of(CLOSED, [False] * 3, [8, 3, 2])
    assert placed(view, executors, expander=expander) == opened


def test_as_many_of_a_type_are_opened_as_are_needed() -> None:
    """And the open VM is filled before."""
    vms = [vm("small-1", 2, 2048), vm("small-2", 2, 2048), vm("small-3", 2, 2048)]
    view = view_of(vms, [True, False, False], [1, 2, 2])
    assert placed(view, 5) == ["small-1", "small-2", "small-2", "small-3", "small-3"]


def test_a_job_waits_that_all_vms_together_do_not_hold() -> None:
    """Nothing is opened for it."""
    view = view_of(CLOSED, [False] * 3, [8, 3, 2])
    decision = create("cluster_autoscaler").decide(view, [make_request(14, 1, 1024)])
    assert isinstance(decision, Wait)
