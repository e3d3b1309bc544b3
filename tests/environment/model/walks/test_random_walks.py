"""Random walks: the model's promises hold for any events in any order."""

import pytest

from tests.builders import make_vm
from tests.environment.model.walks.random_walks import Chaos

VMS = (
    make_vm("vm-1", 4, 8192),
    make_vm("vm-2", 4, 8192, 0.5),
    make_vm("vm-3", 8, 4096),
    make_vm("vm-4", 2, 2048),
)


@pytest.mark.parametrize("policy", ["ff", "rr", "rrc", "random"])
@pytest.mark.parametrize("seed", range(12))
def test_promises_hold_on_random_walks(seed: int, policy: str) -> None:
    """No overcommitted VM, no half gang, no job forgotten or without a reason; in the end all are over."""
    chaos = Chaos(VMS, seed, policy)
    chaos.reconnect()
    for _ in range(300):
        chaos.step()
    chaos.drain()
    chaos.check_end()
