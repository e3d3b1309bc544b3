"""The daemon that all tests here share."""

from collections.abc import Iterator

import pytest

from tests.real_daemon import Daemon, real_daemon


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon on the paper's cluster with first fit as its policy."""
    with real_daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running
