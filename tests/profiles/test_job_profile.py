"""Durations from profiles, computed by hand, and the profiles that ship."""

from pathlib import Path

import pytest

from conf.loader import ConfigError
from profiles.curve import Curve
from profiles.job_profile import JobProfile, load_profiles


def make_profile(**values: object) -> JobProfile:
    """A profile of 100 core-seconds."""
    return JobProfile.model_validate({"bound_by": "cpu", "prefers": "spread", "work": 100.0, **values})


@pytest.mark.parametrize(
    ("values", "size", "seconds"),
    [
        ({}, (1.0, 1024, 1), 100.0),
        ({}, (2.0, 1024, 5), 10.0),
        ({"startup": 7.0}, (2.0, 1024, 5), 17.0),
        ({"serial": 0.5}, (2.0, 1024, 5), 55.0),
        ({"serial": 0.5}, (0.5, 1024, 1), 200.0),
        ({"working_set": "4g", "spilling": 2.0}, (1.0, 2048, 2), 50.0),
        ({"working_set": "4g", "spilling": 2.0}, (1.0, 1024, 2), 75.0),
        ({"working_set": "4g", "spilling": 2.0}, (1.0, 4096, 2), 50.0),
    ],
    ids=[
        "one core",
        "ten cores",
        "startup",
        "serial part",
        "half a core",
        "fits",
        "half fits",
        "all fits",
    ],
)
def test_durations(values: dict[str, object], size: tuple[float, int, int], seconds: float) -> None:
    """A duration is startup, plus work by Amdahl's law, times the slowdown of data that exceeds memory."""
    assert make_profile(**values).duration(*size) == pytest.approx(seconds)


def test_shipped_profiles_are_the_papers() -> None:
    """WordCount, PageRank and Sort have the bounds of Islam 2022, 7.1, and the preferences that follow."""
    profiles = load_profiles()
    assert {name: (p.bound_by, p.prefers) for name, p in profiles.items()} == {
        "wordcount": ("cpu", "spread"),
        "pagerank": ("network", "consolidate"),
        "sort": ("memory", "spread"),
    }


def test_a_bad_profile_is_named(tmp_path: Path) -> None:
    """The error has the file, the line and the key."""
    path = tmp_path / "mine.yaml"
    path.write_text("types:\n  grep:\n    {bound_by: cpu, prefers: spread, work: 0}\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml:3: types\.grep\.work: .*greater than 0.*found 0"):
        load_profiles(str(path))


def test_a_power_of_less_than_one_makes_more_cores_worth_less() -> None:
    """Amdahl's law and a power law are both of the one curve (AutoExecutor, arXiv 2112.08572)."""
    amdahl, power = Curve(5.0, 100.0, serial=0.2), Curve(5.0, 100.0, power=0.5)
    assert amdahl.seconds_on(4.0, 1.0, 1.0) == pytest.approx(5 + 100 * (0.2 + 0.8 / 4))
    assert power.seconds_on(4.0, 1.0, 1.0) == pytest.approx(5 + 100 / 2)
    assert amdahl.seconds_on(1.0, 1.0, 1.0) == power.seconds_on(1.0, 1.0, 1.0) == 105
    profile = JobProfile(bound_by="cpu", prefers="spread", work=100, startup=5, power=0.5)
    assert profile.curve == power
    assert profile.duration(2.0, 1024, 2) == power.seconds_on(4.0, 2048, 2.0)


def test_what_executors_do_for_themselves_is_shared_with_none() -> None:
    """One executor of four cpus is quicker than four of one: each has to warm up its own JVM."""
    profile = JobProfile(bound_by="cpu", prefers="spread", work=100, startup=5, warming=12)
    assert profile.duration(4.0, 1024, 1) == pytest.approx(5 + 12 / 4 + 100 / 4)
    assert profile.duration(1.0, 1024, 4) == pytest.approx(5 + 12 + 100 / 4)
    assert JobProfile(bound_by="cpu", prefers="spread", work=100).warming == 0


@pytest.mark.parametrize(("work", "width", "good"), [(1.0, 0.0, False), (1.0, 1e-4, False), (0.0, 0.0, True)])
def test_a_stage_with_work_has_cores_for_it(work: float, width: float, good: bool) -> None:
    """Without any it would never end."""
    values = {"stages": [{"work": work, "width": width}]}
    if good:
        assert make_profile(**values).stages[0].width == 0.0
    else:
        with pytest.raises(ValueError, match=r"width: should be 0\.001 at least where work is above 0"):
            make_profile(**values)
