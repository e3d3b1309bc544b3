"""Profiles made of measured runs agree with the runs, and are read back."""

from dataclasses import replace
from pathlib import Path

import pytest

from profiles.job_profile import load_profiles
from profiles.runs import ProfileError
from profiles.spark_event_log import read_log
from profiles.summary import profiles_of, profiles_text
from tests.profiles.measured import make_run
from tests.profiles.test_spark_event_log import RECORDED


def test_the_quicker_placement_is_preferred(tmp_path: Path) -> None:
    """Apart 20 s and together 30 s; or the other way round. The numbers give the duration again."""
    apart, together = make_run(duration=20.0), make_run(duration=30.0, placement=("a", "a"))
    swapped = [replace(run, type="pagerank", duration=50 - run.duration) for run in (apart, together)]
    found = profiles_of([apart, together, *swapped, make_run(type="sort", state="failed")])
    assert {name: (profile.prefers, profile.bound_by) for name, profile in found.items()} == {
        "wordcount": ("spread", "cpu"),
        "pagerank": ("consolidate", "network"),
    }
    for profile in found.values():
        assert profile.startup == 6.5
        assert profile.duration(1.0, 1024, 2) == pytest.approx(20.5)
    path = tmp_path / "measured.yaml"
    path.write_text(profiles_text(found, "on a bench"))
    assert load_profiles(str(path)) == found


def test_amdahls_law_is_found_again() -> None:
    """Ten serial seconds and forty that cores share, on one, two and four executors."""
    runs = [make_run(executors=n, launching=0.0, startup=5.0, duration=15 + 40 / n) for n in (1, 2, 4)]
    runs = [replace(run, placement=tuple(map(str, range(run.executors)))) for run in runs]
    profile = profiles_of(runs)["wordcount"]
    assert (profile.startup, profile.work, profile.serial) == (5.0, 50.0, 0.2)


def test_who_spills_is_bound_by_memory() -> None:
    """A tenth of the shuffled data is enough."""
    stages = tuple(replace(stage, spill_mib=1.0) for stage in read_log(RECORDED).stages)
    assert profiles_of([make_run(stages=stages)])["wordcount"].bound_by == "memory"


def test_nothing_has_finished() -> None:
    """Then there is no profile."""
    with pytest.raises(ProfileError, match="no run has finished"):
        profiles_of([make_run(state="killed")])


def test_a_power_law_is_found_where_that_errs_less() -> None:
    """By the square root of the number of executors; each of four numbers is predicted by the others."""
    runs = [
        make_run(executors=n, launching=0.0, startup=5.0, duration=5 + 80 / n**0.5) for n in (1, 2, 4, 16)
    ]
    runs = [replace(run, placement=tuple(map(str, range(run.executors)))) for run in runs]
    profile = profiles_of(runs)["wordcount"]
    assert profile.serial == 0.0
    assert profile.power == pytest.approx(0.5, abs=0.01)
    assert profile.duration(1.0, 1024, 9) == pytest.approx(5 + 80 / 3, rel=0.02)
