"""Decisions that may be executed, and jobs that fit at all."""

import pytest

from environment.decisions.feasibility import check, shortage, whole_cluster_shortfall
from environment.resources import Resources
from environment.types import Place, PlacementRequest
from tests.builders import make_job, make_request, make_view, make_vm, make_vms

VIEW = make_view(make_vms(2, cpus=4, memory_mib=4096), free_cpus=[2, 0.5], free_memory_mib=[4096, 1024])


@pytest.mark.parametrize(
    ("name", "place", "faults"),
    [
        ("an exact fit is no fault", Place("job-1", (0, 0)), ()),
        ("another job", Place("job-2", (0, 0)), ("decided about job-2, which does not wait; job-1 is next",)),
        ("too few executors", Place("job-1", (0,)), ("1 executor placed, 2 needed",)),
        ("too many executors", Place("job-1", (0, 0, 0)), ("3 executors placed, 2 needed",)),
        ("a VM beyond the last", Place("job-1", (0, 2)), ("VM 2 is not one of the 2 VMs",)),
        ("a VM before the first", Place("job-1", (-1, 0)), ("VM -1 is not one of the 2 VMs",)),
        ("no cpus there", Place("job-1", (0, 1)), ("vm-2 has 0.5 cpus free, 1 needed",)),
        (
            "neither cpus nor memory for two",
            Place("job-1", (1, 1)),
            ("vm-2 has 0.5 cpus free, 2 needed", "vm-2 has 1024 MiB free, 2048 needed"),
        ),
    ],
)
def test_faults_of_a_placement(name: str, place: Place, faults: tuple[str, ...]) -> None:
    """Each fault is named with VM, resource and both numbers."""
    assert check(VIEW, make_request(2, cpus=1, memory_mib=1024), place) == faults


def test_lost_executors_are_counted_and_not_the_whole_job() -> None:
    """A request for one of three executors needs one."""
    request = PlacementRequest(make_job(executors=3), 1)
    assert check(VIEW, request, Place("job-1", (0,))) == ()


def test_tenths_of_cpus_are_compared_with_tolerance() -> None:
    """Three times 0.1 fits into 0.3; four times does not."""
    view = make_view([make_vm(cpus=0.3)])
    assert check(view, make_request(3, cpus=0.1), Place("job-1", (0, 0, 0))) == ()
    assert check(view, make_request(4, cpus=0.1), Place("job-1", (0, 0, 0, 0))) != ()


@pytest.mark.parametrize(
    ("executors", "cpus", "memory_mib", "message"),
    [
        (2, 4, 4096, None),
        (3, 4, 4096, "the empty cluster has room for 2 executors of 4 cpus and 4096 MiB, 3 are asked for"),
        (
            1,
            4.5,
            1024,
            "an executor of 4.5 cpus and 1024 MiB fits no VM of the cluster; "
            "the largest is vm-1 (m1.large) with 4 cpus and 4096 MiB",
        ),
        (
            1,
            1,
            5000,
            "an executor of 1 cpu and 5000 MiB fits no VM of the cluster; "
            "the largest is vm-1 (m1.large) with 4 cpus and 4096 MiB",
        ),
    ],
)
def test_what_could_never_run_is_refused(
    executors: int, cpus: float, memory_mib: int, message: str | None
) -> None:
    """A job that even the empty cluster cannot take is told so, with the largest VM named."""
    vms = make_vms(2, cpus=4, memory_mib=4096)
    assert whole_cluster_shortfall(vms, Resources.of(cpus, memory_mib), executors) == message


def test_nothing_is_refused_while_no_vm_is_known() -> None:
    """No job is refused before the first offer, since no VM is known."""
    assert whole_cluster_shortfall([], Resources.of(100, 100), 100) is None


def test_shortage_counts_what_is_there() -> None:
    """Shortage reports room, demand, and how many VMs lack each resource."""
    expected = "room for 2 of 3 executors of 1 cpu and 1024 MiB; of 2 VMs, 1 lacks cpus"
    assert shortage(VIEW, make_request(3)) == expected
