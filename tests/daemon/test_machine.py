"""How many JVMs a machine carries by default."""

import pytest
from structlog.testing import capture_logs

from conf.schema import Config, Mesos
from daemon.machine import ThisMachine, jvms_at_once, this_machine


@pytest.mark.parametrize(
    ("cores", "memory_mib", "jvms"),
    [(2, 8192, 4), (4, 16384, 8), (64, 262_144, 128), (16, 2048, 4), (1, 100, 1)],
)
def test_cores_and_memory_both_count(cores: int, memory_mib: int, jvms: int) -> None:
    """Two run on a core; little memory carries less; one always runs."""
    assert ThisMachine(cores, memory_mib).jvms == jvms


def test_this_machine_has_something() -> None:
    """What the kernel tells is read."""
    here = this_machine()
    assert here.cores >= 1
    assert 64 < here.memory_mib < 1 << 30


def test_an_embedded_mesos_is_bounded_by_default_and_says_so() -> None:
    """A number of one's own is taken as it is; a real Mesos has machines of its own."""
    carried = this_machine().jvms
    with capture_logs() as logs:
        assert jvms_at_once(Config()) == carried
    assert [(line["jvms"], line["setting"]) for line in logs] == [(carried, "mesos.jvms")]
    assert jvms_at_once(Config(mesos=Mesos(jvms=3))) == 3
    assert jvms_at_once(Config(mesos=Mesos(master="mesos:5050"))) is None
