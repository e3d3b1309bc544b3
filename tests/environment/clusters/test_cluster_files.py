"""Clusters by name: the paper's, and the others that ship."""

from pathlib import Path

import pytest

from conf.loader import ConfigError
from environment.clusters.cluster_files import cluster_file, load_cluster


def test_the_papers_cluster() -> None:
    """Islam 2022, Table 4: four VMs of each of three types, 96 cores for $5.76 an hour."""
    vms = load_cluster("paper")
    assert [vm.name for vm in vms[:5]] == [*(f"m1.large-{i}" for i in range(1, 5)), "m1.xlarge-1"]
    assert sum(vm.cpus for vm in vms) == 96
    assert sum(vm.memory_mib for vm in vms) == 384 * 1024
    assert sum(vm.price_per_hour for vm in vms) == pytest.approx(5.76)


def test_the_equal_cluster_is_as_large_and_costs_the_same() -> None:
    """Twelve equal VMs stand for the paper's twelve."""
    vms = load_cluster("homogeneous")
    assert (len(vms), sum(vm.cpus for vm in vms)) == (12, 96)
    assert sum(vm.price_per_hour for vm in vms) == pytest.approx(5.76)


@pytest.mark.parametrize(("name", "count"), [("hundred", 100), ("thousand", 1000)])
def test_large_clusters(name: str, count: int) -> None:
    """They have as many VMs as they say, in natural order."""
    names = [vm.name for vm in load_cluster(name)]
    assert len(set(names)) == count
    assert names.index("m1.large-9") + 1 == names.index("m1.large-10")


def test_a_file_beside_another_goes_before_what_is_shipped(tmp_path: Path) -> None:
    """By its name or its path: so a daemon's config says it like simulate."""
    assert cluster_file("paper", tmp_path) == cluster_file("clusters/paper.yaml", tmp_path)
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "paper.yaml").write_text("vms: []")
    assert cluster_file("paper", tmp_path) == tmp_path / "clusters" / "paper.yaml"


def test_unknown_and_bad_clusters_are_told(tmp_path: Path) -> None:
    """The known names are listed; two VMs of one name are named."""
    with pytest.raises(ConfigError, match=r"mine: no such cluster; known are .*homogeneous.*paper"):
        load_cluster("mine")
    group = "{type: a, name: x, cpus: 1, memory: 1g, price_per_hour: 0}"
    (tmp_path / "two.yaml").write_text(f"vms: [{group}, {group}]")
    with pytest.raises(ConfigError, match="two VMs of the cluster are called x"):
        load_cluster(tmp_path / "two.yaml")
