"""Specifications accepted once are read back, even if the entry rules have changed."""

import json
from typing import Any

import pytest

from conf.schema import Driver, JobSpec
from conf.schema.lenient_read import accepted
from conf.schema.sharing import QueueSettings

SPEC = JobSpec(
    app="/apps/a.jar",
    main_class="org.example.Main",
    args=("1", "--fast"),
    env={"A": "b"},
    resources={"gpus": 1},
    driver=Driver(on="cluster", cpus=1.5, memory=2048),
    max_runtime=3.0,
)


def dumped(**others: Any) -> Any:
    """The stored form of SPEC, but for these keys."""
    return {**json.loads(SPEC.model_dump_json()), **others}


def test_what_was_dumped_comes_back() -> None:
    """As the same value of the same kinds, with the defaults of keys that it did not have yet."""
    assert accepted(JobSpec, dumped()) == SPEC
    assert accepted(JobSpec, {"app": "a.py"}) == JobSpec(app="a.py")
    assert accepted(QueueSettings, {"weight": 2.0}) == QueueSettings(weight=2.0)


@pytest.mark.parametrize(
    "others",
    [
        {"after": ["job-1"]},
        {"after": [{"job": "job-1"}, "job-2", {"group": "g", "when": "any"}]},
        {"after": {"job": "job-1", "when": "any"}},
        {"executors": {"min": 1, "max": 4}},
        {"cpus": {"min": 1, "max": 2}},
        {"retry": {"times": 3, "pause": "2m", "most": "1h"}},
        {"driver": {"on": "cluster"}},
        {"deadline": "2h", "start_at": "2026-11-22T18:00:00Z"},
        {
            "memory": "2g",
            "max_runtime": 5400,
            "labels": {"a": "b"},
            "conf": {"spark.a": "1"},
            "count": 3,
            "at_most": 1,
        },
    ],
)
def test_each_form_comes_back_as_the_same_value(others: dict[str, Any]) -> None:
    """So that a submission that is repeated with its key is the same job."""
    spec = JobSpec.model_validate({"app": "a.py", **others})
    assert accepted(JobSpec, json.loads(spec.model_dump_json())) == spec


@pytest.mark.parametrize(
    "others",
    [
        {"name": "odd\u202ename"},
        {"app": "/apps/\x9b.py"},
        {"app": "/apps/no-ending"},
        {"name": "x" * 1000, "args": ["y" * 100_000]},
        {"executors": 100_000, "min_executors": 200_000},
        {"cpus": 0.12345},
        {"resources": {"cpus": -1.0}},
        {"driver": {"on": "host", "cpus": 9999.0, "memory": 1, "spot": "never"}},
    ],
)
def test_what_would_be_refused_today_comes_back(others: dict[str, Any]) -> None:
    """No limit and no check of today stands between the store and a job that was accepted."""
    with pytest.raises(ValueError, match="validation error"):
        JobSpec.model_validate(dumped(**others))
    assert json.loads(accepted(JobSpec, dumped(**others)).model_dump_json()) == dumped(**others)


@pytest.mark.parametrize(
    "values", [[], None, {}, dumped(exec=1), dumped(app=3), dumped(args="one"), dumped(executors="many")]
)
def test_what_no_model_dumped_is_refused(values: Any) -> None:
    """Other keys and types are damage."""
    with pytest.raises(ValueError, match="validation error"):
        accepted(JobSpec, values)
