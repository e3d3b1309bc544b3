"""How many JVMs a machine carries by default."""

import pytest

from daemon.machine import Machine, this_machine


@pytest.mark.parametrize(
    ("cores", "memory_mib", "jvms"),
    [(2, 8192, 12), (4, 16384, 16), (64, 262_144, 256), (16, 2048, 4), (1, 100, 1)],
)
def test_cores_and_memory_both_count(cores: int, memory_mib: int, jvms: int) -> None:
    """Small machines carry the demo's eleven; little memory carries less; one always runs."""
    assert Machine(cores, memory_mib).jvms == jvms


def test_this_machine_has_something() -> None:
    """What the kernel tells is read."""
    here = this_machine()
    assert here.cores >= 1
    assert 64 < here.memory_mib < 1 << 30
