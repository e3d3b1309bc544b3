"""Random walks with VMs that come and go: nothing is opened twice, nothing leaks, no job is lost."""

from dataclasses import replace

import pytest

from environment.pools import IdleTimeout, Terms
from environment.types import Vm
from tests.builders import make_vm
from tests.environment.model.walks.elastic_walks import ElasticChaos

QUICK = Terms("quick", boot=3.0, minimum=5.0, granularity=1.0)
SLOW = Terms("slow", boot=20.0)


def pool(terms: Terms, count: int, cpus: float, memory_mib: int, always: int = 0) -> list[Vm]:
    """As a cluster file has it."""
    vms = [make_vm(f"{terms.pool}-{i + 1}", cpus, memory_mib) for i in range(count)]
    return [
        replace(vm, id=vm.name, address="", terms=replace(terms, always=i < always))
        for i, vm in enumerate(vms)
    ]


FIXED = [make_vm("vm-1", 4, 8192)]
POOLS = [*pool(QUICK, 3, 4, 8192, always=1), *pool(SLOW, 2, 8, 4096)]
KEEPERS = (
    *(IdleTimeout("none"), IdleTimeout("timeout", 30.0), IdleTimeout("break_even")),
    *(IdleTimeout("forecast"), IdleTimeout("planned")),
)


@pytest.mark.parametrize("policy", ["ff", "rr", "greedy"])
@pytest.mark.parametrize("seed", range(6))
def test_promises_hold_on_walks_with_pools(seed: int, policy: str) -> None:
    """They hold for any behaviour of providers, agents, drivers and daemons."""
    chaos = ElasticChaos(FIXED if seed % 2 else [], POOLS, seed, policy, KEEPERS[seed % 3])
    chaos.reconnect()
    for _ in range(300):
        chaos.step()
    chaos.drain()
    chaos.check_end()
