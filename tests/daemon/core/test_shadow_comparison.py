"""The comparison of two policies: placements and prices where they differ."""

from dataclasses import replace

import pytest

from daemon.core.shadow_comparison import Comparison, Outcome, outcome_of, report
from environment.decisions.decision_round import Verdict
from environment.model.messages.records import JobRecord
from environment.types import Place, Wait
from tests.builders import make_job, make_request, make_view, make_vm

VMS = (make_vm("a", price_per_hour=0.2), make_vm("b", price_per_hour=0.5), make_vm("c", price_per_hour=1.0))
VIEW = make_view(VMS, executors=(3, 0, 0))

WAITS = Outcome("ilp", None, "not yet", 0.0)
ON_A = Outcome("ff", {"a": 2}, "", 0.0)
ON_B = Outcome("rr", {"a": 1, "b": 1}, "", 0.5)


def job(state: str = "running", expected: float | None = None) -> JobRecord:
    """A job that started at 100 s; it took half an hour when it has finished."""
    record = JobRecord(make_job(expected_duration=expected), started_at=100.0)
    if state == "finished":
        return replace(record, state="finished", finished_at=1900.0)
    return replace(record, state="running")


def compared(acting: Outcome, shadow: Outcome) -> Comparison:
    """A comparison of these."""
    return Comparison(7.0, "job-1", acting, shadow)


def test_only_vms_taken_into_use_have_a_price() -> None:
    """A VM that holds an executor already is paid for anyway; one that is opened costs its price, once."""
    place = Place("job-1", (1, 0, 1))
    assert outcome_of(Verdict(make_request(3), VIEW, place), "ff") == Outcome("ff", {"a": 1, "b": 2}, "", 0.5)
    assert outcome_of(Verdict(make_request(3), VIEW, Wait("full")), "ff") == Outcome("ff", None, "full", 0.0)


@pytest.mark.parametrize(
    ("acting", "shadow", "differs"),
    [
        (ON_A, ON_A, False),
        (ON_A, replace(ON_A, policy="rr"), False),
        (ON_A, ON_B, True),
        (ON_A, WAITS, True),
        (WAITS, replace(WAITS, reason="another reason"), False),
    ],
)
def test_what_differs_is_where_executors_would_be(acting: Outcome, shadow: Outcome, differs: bool) -> None:
    """Numbers of executors by VM decide; names and reasons do not."""
    assert compared(acting, shadow).differs is differs


def test_totals_are_kept_by_pair_and_priced_where_a_duration_is_known() -> None:
    """A finished job has its own duration, another its profile's, and one without either has no price."""
    found = [
        (compared(ON_A, ON_B), job("finished", expected=9.0)),
        (compared(ON_A, ON_B), job(expected=3600.0)),
        (compared(ON_A, ON_B), job()),
        (compared(ON_A, replace(ON_A, policy="rr")), job("finished")),
        (compared(ON_A, WAITS), job("finished")),
        (compared(replace(WAITS, policy="ff"), ON_B), job("finished")),
    ]
    made = report(found, limit=3)
    rr, ilp = made.totals
    assert (rr.acting, rr.shadow, rr.compared, rr.different, rr.priced) == ("ff", "rr", 5, 4, 3)
    assert (rr.acting_cost, rr.shadow_cost) == pytest.approx((0.0, 0.25 + 0.5))
    assert (rr.only_acting_placed, rr.only_shadow_placed) == (0, 1)
    assert (ilp.compared, ilp.only_acting_placed, ilp.only_shadow_placed, ilp.priced) == (1, 1, 0, 0)
    assert [(each.duration, each.known_from, each.shadow_cost) for each in made.differences] == [
        (1800.0, "run", pytest.approx(0.25)),
        (3600.0, "profile", pytest.approx(0.5)),
        (None, "nothing", None),
    ]
