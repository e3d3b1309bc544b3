"""A plan's runs: every combination once, repeat by repeat, and none that cannot be."""

from pathlib import Path
from typing import Any

import pytest

from conf.loader import SHIPPED, ConfigError, build, find, load, parse
from conf.schema import Cluster
from conf.schema.measuring_plan import MeasuringPlan
from profiles.measuring_plans import runs_of

CLUSTER = build(
    Cluster, {"vms": [{"type": "a", "cpus": 4.0, "memory": 8192, "price_per_hour": 1.0, "count": 4}]}, "c"
)


def plan_of(*grids: dict[str, Any], **values: Any) -> MeasuringPlan:
    """A plan of these grids."""
    return build(MeasuringPlan, {"grids": list(grids), **values}, "plan")


def test_every_combination_once() -> None:
    """Sizes, executors, placements and repeats are multiplied; placements that are the same are not."""
    grid = {"apps": {"sort": [8.0, 16.0], "sql": [4.0]}, "executors": [2, 4], "repeats": 2}
    runs = runs_of(plan_of({**grid, "placement": ["spread", "mixed", "consolidated"]}), CLUSTER)
    # With two executors, mixed is on one VM, as consolidated is.
    assert len(runs) == len({run.name for run in runs}) == 3 * (2 + 3) * 2
    assert {run.vms for run in runs if run.executors == 4} == {4, 2, 1}
    assert [run.repeat for run in runs] == [0] * 15 + [1] * 15
    first, second = ([run.name[:-1] for run in runs[at : at + 15]] for at in (0, 15))
    assert sorted(first) == sorted(second)
    assert first != second


def test_the_order_is_the_seeds() -> None:
    """The same seed gives the same order, another one another."""
    grid = {"apps": {"sort": [1.0, 2.0, 3.0, 4.0, 5.0]}}
    assert runs_of(plan_of(grid, seed=1), CLUSTER) == runs_of(plan_of(grid, seed=1), CLUSTER)
    assert runs_of(plan_of(grid, seed=1), CLUSTER) != runs_of(plan_of(grid, seed=2), CLUSTER)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (
            {"apps": {"sort": [8.0]}, "executors": [5]},
            "needs 5 VMs with 1 cpu and 1024 MiB each, the cluster has 4",
        ),
        ({"apps": {"sort": [8.0]}, "executors": [4], "beside": [1], "placement": ["consolidated"]}, "8 cpus"),
        ({"apps": {"sort": [8.0]}, "memory": [5000], "placement": ["consolidated"]}, "10000 MiB"),
        (
            {"apps": {"sorting": [8.0]}},
            "sorting: no such app; known are bursts, gather, index, kmeans, pagerank, sort, sql, wordcount, ",
        ),
    ],
)
def test_what_cannot_be_measured(grid: dict[str, Any], message: str) -> None:
    """The error names the run and its missing resource."""
    with pytest.raises(ConfigError, match=message):
        runs_of(plan_of(grid), CLUSTER)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grids: []", "plan:1: grids: should have at least 1 item"),
        ("grids: [{apps: {sort: [0]}}]", r"plan:1: grids.0.apps.sort.0: should be greater than 0, found 0"),
        (
            "grids:\n  - apps: {sort: [8]}\n    placing: [spread]",
            "plan:3: grids.0.placing: unknown key; did you mean placement",
        ),
        (
            "grids:\n  - apps: {sort: [8]}\n    placement: [apart]",
            "plan:3: .*should be 'spread', 'mixed' or 'consolidated'",
        ),
        ("isolation: yes\ngrids: [{apps: {sort: [8]}}]", "plan:1: isolation: should be"),
    ],
)
def test_bad_plans(text: str, message: str) -> None:
    """File, line, key, the value found and the correct form."""
    with pytest.raises(ConfigError, match=message):
        parse(text, MeasuringPlan, "plan")


def test_arguments_may_be_numbers() -> None:
    """As in a job file."""
    plan = parse("grids: [{apps: {sort: [8]}, args: [--partitions, 4]}]", MeasuringPlan, "plan")
    assert plan.grids[0].args == ("--partitions", "4")


@pytest.mark.parametrize("path", sorted((SHIPPED / "profiles").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_plans_fit_their_clusters(path: Path) -> None:
    """Every plan that ships can be run."""
    plan = load(path, MeasuringPlan)
    assert runs_of(plan, load(find(plan.cluster, path.parent), Cluster))
