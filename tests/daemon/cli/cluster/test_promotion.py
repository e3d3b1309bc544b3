"""The command that promotes a policy, and how a promotion is shown."""

import json
from dataclasses import replace

import pytest

from agents.experiments.paired import PairedDifference
from conf.schema import PolicyChoice
from daemon.core.status import PromotionStatus
from daemon.policy.promotion import PairedRuns
from daemon.what_if.cases import Present
from daemon.what_if.promotions import PromotionAnswer
from daemon.what_if.recorded_jobs import RecordedJobs
from daemon.what_if.what_if import PolicyAhead
from environment.simulation.durations.prediction_intervals import Interval
from tests.builders import make_job, make_view, make_vms
from tests.daemon.cli.conftest import Daemon

Capture = pytest.CaptureFixture[str]
DOLLARS, SECONDS = Interval(12.5, 12.0, 13.0), Interval(90.0, 80.0, 100.0)
JOBS = tuple(make_job(f"job-{number}") for number in range(30))
PAST = RecordedJobs(0.0, JOBS, {job.id: 60.0 for job in JOBS[:25]})
ANSWER = PromotionAnswer(
    PAST.on(Present(make_view(make_vms(2)), ())),
    PAST,
    PolicyAhead("ff", {}, 20, DOLLARS, SECONDS, SECONDS),
    PolicyAhead("greedy", {"beta": 0.5}, 20, DOLLARS, SECONDS, SECONDS),
    PairedRuns(PairedDifference(-0.031, 0.004, 20), PairedDifference(0.002, float("inf"), 20)),
    "",
    promoted=True,
)


def test_a_promotion_is_asked_for_and_shown(daemon: Daemon, capsys: Capture) -> None:
    """Both policies, their difference with its error, and the outcome."""
    daemon.cast.promotions.answer = ANSWER
    assert daemon.run("policy", "promote", "greedy:beta=0.5", "--since", "2026-11-20T00:00:00Z") == 0
    asked = daemon.cast.promotions.asked
    assert asked["chosen"] == PolicyChoice(name="greedy:beta=0.5")
    assert (asked["since"], asked["draws"], asked["dry_run"]) == (1_795_132_800.0, 20, False)
    out = " ".join(capsys.readouterr().out.split())
    assert "30 jobs since" in out
    assert "25 of them ended" in out
    assert "greedy:beta=0.5 20 $12.50 1 min 30 s 0 %" in out
    assert "difference -3.1 ± 0.4 % +0.2 ± unknown %" in out
    assert "greedy:beta=0.5 acts now" in out


def test_why_a_policy_is_not_promoted_is_a_line_and_an_exit_code(daemon: Daemon, capsys: Capture) -> None:
    """Also in JSON; with --dry-run, a policy that would be promoted is told to be."""
    daemon.cast.promotions.answer = replace(ANSWER, promoted=False, why="not cheaper: +0.3 ± 0.4 %")
    assert daemon.run("policy", "promote", "greedy", "--dry-run") == 1
    assert daemon.cast.promotions.asked["dry_run"]
    assert capsys.readouterr().out.splitlines()[-1] == "not cheaper: +0.3 ± 0.4 %"
    assert daemon.run("policy", "promote", "greedy", "-o", "json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["promoted"], answer["why"]) == (False, "not cheaper: +0.3 ± 0.4 %")
    assert answer["cost"] == {"mean": -0.031, "error": 0.004, "pairs": 20}
    assert answer["completion"]["error"] is None
    assert "standard errors are of that alone" in answer["assumes"][-1]
    daemon.cast.promotions.answer = replace(ANSWER, promoted=False)
    assert daemon.run("policy", "promote", "greedy:beta=0.5", "--dry-run") == 0
    assert "greedy:beta=0.5 would be promoted. Nothing was changed." in capsys.readouterr().out


def test_too_few_jobs_are_told_in_one_line(daemon: Daemon, capsys: Capture) -> None:
    """As every rejection."""
    assert daemon.run("policy", "promote", "greedy") != 0
    err = capsys.readouterr().err
    assert "at least 20 jobs that have ended are needed" in err
    assert len(err.splitlines()) == 1


def test_a_promotion_is_in_the_policys_status(daemon: Daemon, capsys: Capture) -> None:
    """While it is watched, and when it was taken back."""
    for status, shown in [
        (PromotionStatus("greedy", "ff", 0.0, "", taken_back=False), "not compared yet"),
        (
            PromotionStatus("greedy", "ff", 0.0, "-1.0 ± 0.2 % so far", taken_back=False),
            "cost -1.0 ± 0.2 % so",
        ),
        (PromotionStatus("greedy", "ff", 0.0, "+3.1 ± 0.9 %", taken_back=True), "taken back: +3.1 ± 0.9 %"),
    ]:
        daemon.cast.status = replace(daemon.cast.status, promotion=status)
        assert daemon.run("policy", "show") == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "promotion greedy over ff, 1970-01-01" in out
        assert shown in out
