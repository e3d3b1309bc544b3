"""A ZooKeeper of the tests' own, as the daemon's tests have it."""

from tests.daemon.conftest import zookeeper

__all__ = ["zookeeper"]
