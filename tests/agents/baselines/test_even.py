"""The even policy: equal shares on so many VMs, or none."""

import pytest

from agents.baselines.even import Even, EvenOptions
from agents.registry import PolicyError, create
from environment.types import Place, Wait
from tests.builders import make_request, make_view, make_vms


@pytest.mark.parametrize(
    ("vms", "placement"), [(1, (0, 0, 0)), (2, (0, 1, 0)), (3, (0, 1, 2)), (9, (0, 1, 2))]
)
def test_shares_are_even(vms: int, placement: tuple[int, ...]) -> None:
    """Executors go in turn to the first VMs; never to more VMs than there are executors."""
    decision = Even(EvenOptions(vms)).decide(make_view(make_vms(4)), [make_request(executors=3, cpus=1)])
    assert isinstance(decision, Place)
    assert decision.placement == placement


def test_it_waits_for_room() -> None:
    """Three executors of two cpus do not fit one VM of four, so it waits and says so."""
    decision = Even(EvenOptions(1)).decide(make_view(make_vms(4)), [make_request(executors=3, cpus=2)])
    assert isinstance(decision, Wait)
    assert "room for 3 executors each is on 0 of 1 VM:" in decision.reason


def test_no_vms_are_refused() -> None:
    """The option is checked."""
    with pytest.raises(PolicyError, match="vms: should be 1 or more, found 0"):
        create("agents.baselines.even:Even", {"vms": 0})
