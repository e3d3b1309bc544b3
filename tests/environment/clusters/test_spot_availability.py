"""Recorded availability of spot VMs: the files, their errors, and the counts over time."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.loader import ConfigError
from environment.clusters.cluster_files import load_availability, load_cluster
from environment.clusters.spot_availability import SpotTrace, read_availability

RECORD = {"metadata": {"gap_seconds": 30, "zone": "b"}, "data": [2, 3, 0]}
CLUSTER = """
pools:
  - {name: fixed, type: t, cpus: 4, memory: 16g, price_per_hour: 1, max: 2}
  - {name: cheap, type: t, cpus: 4, memory: 16g, max: 2,
     spot: {price_per_hour: 1, interruptions_per_hour: 1, availability: %s}}
"""


@pytest.mark.parametrize(
    ("said", "trace"),
    [
        ("zones/b.json", SpotTrace(30.0, (2, 3, 0))),
        ("{file: zones/b.json, times: 4, offset: 1m}", SpotTrace(30.0, (8, 12, 0), 60.0)),
    ],
)
def test_a_cluster_file_names_a_record(tmp_path: Path, said: str, trace: SpotTrace) -> None:
    """By its path from the cluster file's folder; the VMs are as those of other spot pools."""
    (tmp_path / "zones").mkdir()
    (tmp_path / "zones/b.json").write_text(json.dumps(RECORD))
    (tmp_path / "c.yaml").write_text(CLUSTER % said)
    assert load_availability(tmp_path / "c.yaml") == {"cheap": trace}
    assert [vm.terms.spot is not None for vm in load_cluster(tmp_path / "c.yaml") if vm.terms] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("missing.json", "missing.json: no such file"),
        ("{times: 2}", "file"),
        ("{file: b.json, times: 0}", "times"),
        ("{file: b.json, offset: -1}", "offset"),
        ("{file: b.json, zone: b}", "zone"),
    ],
)
def test_settings_that_are_none(tmp_path: Path, said: str, error: str) -> None:
    """The error names the key."""
    (tmp_path / "b.json").write_text(json.dumps(RECORD))
    (tmp_path / "c.yaml").write_text(CLUSTER % said)
    with pytest.raises(ConfigError, match=error):
        load_availability(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "cannot be read"),
        ("[1, 0]", 'should be {"metadata": {"gap_seconds": 30}, "data": [1, 0, ...]}'),
        ('{"data": [1]}', "should be"),
        ('{"metadata": {}, "data": [1]}', "should be"),
        ('{"metadata": {"gap_seconds": 30}}', "should be"),
        ('{"metadata": {"gap_seconds": "30"}, "data": [1]}', 'a number of seconds, found "30"'),
        ('{"metadata": {"gap_seconds": true}, "data": [1]}', "a number of seconds, found true"),
        ('{"metadata": {"gap_seconds": 0}, "data": [1]}', "from 1 to 86400, found 0"),
        ('{"metadata": {"gap_seconds": -30}, "data": [1]}', "from 1 to 86400, found -30"),
        ('{"metadata": {"gap_seconds": NaN}, "data": [1]}', "from 1 to 86400, found nan"),
        ('{"metadata": {"gap_seconds": 1%s}, "data": [1]}' % ("0" * 400), "from 1 to 86400, found inf"),
        ('{"metadata": {"gap_seconds": 30}, "data": []}', "data: has no counts"),
        ('{"metadata": {"gap_seconds": 30}, "data": {"0": 1}}', "data: should be a list"),
        ('{"metadata": {"gap_seconds": 30}, "data": [1, -1]}', "count 2 should be a whole number from 0"),
        ('{"metadata": {"gap_seconds": 30}, "data": [1, null]}', "missing need one, too, found null"),
        ('{"metadata": {"gap_seconds": 30}, "data": [0.5]}', "count 1 should be a whole number"),
        ('{"metadata": {"gap_seconds": 30}, "data": ["1"]}', "count 1 should be a whole number"),
        ('{"metadata": {"gap_seconds": 30}, "data": [true]}', "count 1 should be a whole number"),
        ('{"metadata": {"gap_seconds": 30}, "data": [1000001]}', "from 0 to 1,000,000"),
        ('{"metadata": {"gap_seconds": 30}, "data": ["%s"]}' % ("x" * 99), r"x\.\.\.$"),
        ("[" * 100_000, "cannot be read"),
        (" " * ((16 << 20) + 1), "at most 16 MiB"),
    ],
)  # fmt: skip
def test_bad_records(tmp_path: Path, text: str, error: str) -> None:
    """One line names the file, the place in it, and the right form."""
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(ConfigError, match=error.replace("[", r"\[").replace("{", r"\{")) as found:
        read_availability(tmp_path / "b.json")
    assert "b.json: " in str(found.value)
    assert "\n" not in str(found.value)


def test_a_record_begins_where_the_seed_says_and_repeats() -> None:
    """Its own offset goes first; records of one length begin at the same place."""
    trace = SpotTrace(30.0, (2, 3, 0), 65.0)
    assert trace.begun(7) is trace
    assert [trace.at(t) for t in (0.0, 29.9, 30.0, 60.0, 90.0, 300.0)] == [0, 0, 2, 3, 0, 2]
    assert [trace.next_fall(t) for t in (0.0, 89.0, 90.0)] == [90.0, 90.0, 180.0]
    long = SpotTrace(30.0, tuple(range(1000)))
    drawn = [long.begun(seed) for seed in range(8)]
    assert len({each.offset for each in drawn}) == 8
    assert drawn == [long.begun(seed) for seed in range(8)]
    other = SpotTrace(30.0, (1,) * 1000).begun(3)
    assert other.offset == drawn[3].offset
    assert SpotTrace(30.0, (5, 5)).next_fall(0.0) == math.inf


@given(
    st.sampled_from([1.0, 1.1, 30.0, 34.0, 86400.0 / 7]),
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.floats(0.0, 1e6),
    st.floats(0.0, 1e7),
)
def test_falls_are_found(gap: float, counts: list[int], offset: float, at: float) -> None:
    """The next time at which there are fewer than before is that of a walk over all gaps."""
    trace = SpotTrace(gap, tuple(counts), offset)
    fall = trace.next_fall(at)
    if fall == math.inf:
        assert len(set(counts)) == 1
        return
    assert at < fall <= at + gap * (len(counts) + 1)
    assert trace.at(fall) < trace.at(fall - gap / 2)
    begin = round(fall / gap)
    for gaps in range(begin - len(counts), begin):
        if gaps * gap > at:
            assert trace.at((gaps + 0.5) * gap) >= trace.at((gaps - 0.5) * gap)
