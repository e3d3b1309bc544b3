"""How many JVMs a machine carries by default."""

from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from conf.schema import Config, Mesos
from daemon.cli.operate import up
from daemon.core.cluster_status import ClusterStatus, PoolStatus
from daemon.vms.host_capacity import ThisMachine, cluster_for, jvms_at_once, this_machine
from environment.clusters.cluster_files import load_cluster


@pytest.mark.parametrize(
    ("cores", "memory_mib", "jvms"),
    [(2, 8192, 4), (4, 16384, 8), (64, 262_144, 128), (16, 2048, 4), (1, 100, 1)],
)
def test_cores_and_memory_both_count(cores: int, memory_mib: int, jvms: int) -> None:
    """Two run on a core; little memory carries less; one always runs."""
    assert ThisMachine(cores, memory_mib).jvms == jvms


def test_this_machine_has_something() -> None:
    """The kernel's numbers of cores and memory are read."""
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


@pytest.mark.parametrize(("cores", "most"), [(1, 8), (2, 8), (4, 8), (8, 16), (16, 32), (47, 32), (96, 96)])
def test_the_cluster_of_no_config_follows_the_machine(cores: int, most: int) -> None:
    """Its VMs are opened when they are needed, and have no more cores than JVMs run, but for the smallest."""
    vms = load_cluster(cluster_for(ThisMachine(cores, 1 << 20)))
    assert sum(vm.cpus for vm in vms) == most
    assert all(vm.terms is not None and not vm.terms.always for vm in vms)


def test_up_without_a_config_takes_that_cluster_unless_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A config file, or a setting, says which cluster there is, or that Mesos is elsewhere."""
    asked: list[str] = []

    def run(config: Config, *_: object) -> int:
        asked.append(config.mesos.cluster)
        return 0

    monkeypatch.setattr(up, "_run", run)
    own = cluster_for(this_machine())
    assert up.up() == 0
    assert up.up(settings=["policy.name=rr"]) == 0
    assert up.up(settings=["mesos.cluster=paper"]) == 0
    assert up.up(settings=["mesos.master=mesos:5050"]) == 0
    assert asked == [own, own, "paper", "clusters/paper.yaml"]


def test_a_small_machine_under_a_large_cluster_is_told_while_jobs_wait_for_it() -> None:
    """Not while none waits, nor where the machine carries as many as the cluster has cores."""
    pool = PoolStatus("p", "m1.large", 4.0, 16384, {}, 0.24, 3.0, 0, 24, 1)
    vms = (SimpleNamespace(cpus=4.0, pool="p"), SimpleNamespace(cpus=4.0, pool=""))
    status = ClusterStatus(vms, (pool,), jvms=4, crowded=True)  # type: ignore[arg-type]
    assert status.note.startswith("Jobs wait for this machine, not for VMs: it carries 4 JVMs")
    assert "has 100 cores" in status.note
    for quiet in (
        ClusterStatus(status.vms, status.pools, jvms=4),
        ClusterStatus(status.vms, status.pools, jvms=100, crowded=True),
        ClusterStatus(status.vms, status.pools, crowded=True),
    ):
        assert quiet.note == ""
