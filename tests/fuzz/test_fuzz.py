"""A little of the hour of fuzzing: see __main__.py."""

from pathlib import Path

import pytest

from tests.daemon.fleet import fleets
from tests.fuzz.soak import Soak
from tests.waiting import until


@pytest.mark.slow
def test_no_request_ends_in_a_server_error(tmp_path: Path) -> None:
    """Described and mutated requests to a real daemon get no 5xx but a documented 503, and it stays well."""
    with fleets(tmp_path) as make:
        daemon = make(http={"header_timeout": 0.5, "idle_timeout": 1}, max_queued_jobs=200).add()
        until(daemon.leads, daemon.log)
        soak = Soak(daemon, seed=7)
        soak.round(0, described=1, raw=200)
        assert soak.failures == [], soak.report()
        assert sum(soak.answers.values()) > 200
