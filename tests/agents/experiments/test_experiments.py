"""Policies compared over workloads and seeds, and the report that is made of it."""

from pathlib import Path

import pytest

from agents.experiments.comparison import Contender, compare, contender, knowledge, known_to, statistics_of
from agents.experiments.reports import draw, table
from agents.registry import PolicyError


def test_a_contender_is_written_as_a_user_would() -> None:
    """Name and options, separated by colons; values are YAML."""
    found = contender("random:seed=3")
    assert found == Contender("random", {"seed": 3})
    assert found.label == "random:seed=3"
    assert contender("ff").label == "ff"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("zork", "unknown"),
        ("random:3", "module 3|module random"),
        ("random:seed=3:x", "should be NAME:KEY=VALUE, as in greedy:beta=0.5"),
        ("random:seed=[", "YAML"),
        ("ff:beta=1", "beta: requires overtake best, found none"),
        ("ff:size=1", "size: unknown option; known options: overtake"),
    ],
)
def test_what_is_no_contender_is_said(text: str, complaint: str) -> None:
    """Unknown policies and options are a PolicyError that names them."""
    with pytest.raises(PolicyError, match=complaint):
        contender(text)


def test_every_policy_meets_the_same_workloads() -> None:
    """Each workload and seed is the same for all; mean and spread are over seeds."""
    runs = list(compare([Contender("ff"), Contender("rr")], ["burst"], seeds=(0, 1), jobs=10))
    assert [(run.policy, run.seed) for run in runs] == [("ff", 0), ("rr", 0), ("ff", 1), ("rr", 1)]
    sizes = [[(job.cpus, job.executors, job.submitted_at) for job in run.result.jobs] for run in runs]
    assert sizes[0] == sizes[1] != sizes[2] == sizes[3]
    found = statistics_of(runs)
    costs = [run.result.cost for run in runs if run.policy == "ff"]
    assert found["ff"]["cost"].mean == pytest.approx(sum(costs) / 2)
    assert found["ff"]["cost"].spread == pytest.approx(abs(costs[0] - costs[1]) / 2**0.5)
    again = list(compare([Contender("ff")], ["burst"], seeds=(0,), jobs=10))
    assert again[0].result == runs[0].result


def test_tables_and_pictures_are_made(tmp_path: Path) -> None:
    """A row for each policy, and a PNG file."""
    runs = list(compare([Contender("ff"), Contender("rr")], ["normal"], seeds=(0, 1), jobs=5))
    text = table(runs)
    assert len(text.splitlines()) == 6
    assert text.endswith("\nDurations: truth profile; belief spread.\n")
    assert "| `rr` |" in text
    assert "±" in text
    draw(statistics_of(runs), "five jobs", tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_run_with_every_seed_has_no_spread_in_a_table(tmp_path: Path) -> None:
    """A workload that is a file; nor has a single seed."""
    own = tmp_path / "own.csv"
    own.write_text("submitted_at,type,cpus,memory_mib,executors,duration\n0,sort,1,1024,2,120\n")
    runs = list(compare([Contender("ff"), Contender("rr")], [str(own)], seeds=(0, 1)))
    assert "±" not in table(runs)
    assert "\nAll 2 seeds are the same run with `ff`, `rr`.\n" in table(runs)
    drawn = list(compare([Contender("ff")], ["normal"], seeds=(0,), jobs=5))
    assert "±" not in table(drawn)


def test_what_policies_know_is_told_by_their_labels() -> None:
    """With options, as tables name them; of others' policies nobody can tell."""
    assert known_to("ff") == ()
    assert known_to("aep:overtake=first_fit:window=8") == ("queue", "preferences", "prices")
    assert knowledge("ff:overtake=easy") == "sizes, queue, durations, ends, preferences"
    assert knowledge("yours:decide") == knowledge("policies/mine") == "not told"


def test_the_longest_wait_is_told() -> None:
    """Of all jobs that ran."""
    (run,) = compare([contender("ff")], ["burst"], jobs=20)
    waited = max(job.started_at - job.submitted_at for job in run.result.jobs)
    assert run.result.summary()["longest_wait"] == waited > 0
    assert statistics_of([run])["ff"]["longest_wait"].mean == waited
