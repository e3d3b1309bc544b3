"""Alert rules, the dashboard and docs/metrics.md match /metrics; each fault has its alert."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon.core.estimate import Coverage, IntervalCounts
from daemon.core.status import BudgetStatus
from daemon.http.metrics import CHECKS
from daemon.scheduler.stage_timings import Stages
from daemon.store.job_store import Store
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.resources import Resources
from tests.builders import make_job
from tests.daemon.http.shown_metrics import STORED, Rigged, document, everything, holds, names, shown

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus/stoker.rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
PANELS = json.loads((DEPLOY / "grafana/stoker.json").read_text())["panels"]
TARGETS = [target for panel in PANELS for target in panel["targets"]]
UP = '\n# TYPE up gauge\nup{job="stoker"} 1.0\n'


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Labels of all series."""
    return names(everything() + UP)


def strangers(expression: str, known: dict[str, set[str]]) -> Iterator[str]:
    """Metrics and labels that an expression names and /metrics does not."""
    found = re.findall(r"\b(stoker_\w+|up\b)(?:\{([^}]*)\})?", expression)
    of_all = {label for name, _ in found for label in known.get(name, ())}
    for name, selector in found:
        if name not in known:
            yield name
        yield from (
            f"{name}.{label}"
            for label in re.findall(r"(\w+)[!=]", selector)
            if label not in known.get(name, ())
        )
    for group in re.findall(r"\bby \(([^)]*)\)", expression):
        yield from (label.strip() for label in group.split(",") if label.strip() not in of_all)


def test_rules_and_panels_name_what_there_is(known: dict[str, set[str]]) -> None:
    """Rules and panels use known metrics, labels, values of few-valued labels, and legends."""
    for expression in [rule["expr"] for rule in RULES] + [target["expr"] for target in TARGETS]:
        assert not list(strangers(expression, known)), expression
        assert "stoker_" in expression or expression.startswith("up")
    assert {check for rule in RULES for check in re.findall(r'check="(\w+)"', rule["expr"])} <= set(CHECKS)
    for target in TARGETS:
        labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        named = {label for name in re.findall(r"stoker_\w+", target["expr"]) for label in known[name]}
        assert labels <= named
    assert list(strangers('sum by (who) (stoker_nothing{x="1"})', known)) == [
        "stoker_nothing",
        "stoker_nothing.x",
        "who",
    ]


def test_the_documentation_is_what_metrics_show() -> None:
    """`python -m tests.daemon.http.shown_metrics` makes it."""
    text = everything()
    assert STORED.read_text(encoding="utf-8") == document(text)
    assert "stoker_stage_seconds" in STORED.read_text(encoding="utf-8").partition("-->")[2]


def task(number: int) -> ExecutorRecord:
    """One that was lost."""
    where = ("S1", "vm-1", "m1.large", "10.0.0.1", 0.24, Resources.of(1, 1024), (), 10.0)
    return ExecutorRecord(f"job-1.{number}", "job-1", number, *where, "lost", 12.0, 20.0)


def test_stages_are_observed_once() -> None:
    """A stage is counted once, however often its record comes.

    Stages of an earlier daemon are not counted again.
    """
    stages = Stages(10.0)
    record = JobRecord(make_job("job-1", submitted_at=8.0), "finished", "", 11.0, 12.0, 20.0)
    again = JobRecord(make_job("job-3", submitted_at=1.0), "placing", "", 13.0, queued_again_at=9.0)
    earlier = JobRecord(make_job("job-2", submitted_at=2.0), "running", "", 9.0, 9.5)
    for _ in range(2):
        stages.observe(Changes((record, again, earlier), (task(0),)))
    with stages.timed("decide"):
        pass
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in stages.collect()
        for sample in metric.samples
        if "bucket" not in sample.name
    }
    count, total = "stoker_stage_seconds_count", "stoker_stage_seconds_sum"
    assert (found[count, "queue"], found[total, "queue"]) == (2, 3.0 + 4.0)
    assert (found[count, "run"], found[total, "run"]) == (1, 8.0)
    assert (found["stoker_stage_seconds_count", "launch"], found["stoker_stage_seconds_sum", "launch"]) == (
        1,
        2,
    )
    assert found["stoker_executors_ended_total", "lost"] == 1
    assert (found["stoker_stage_seconds_count", "decide"], found["stoker_stage_seconds_count", "boot"]) == (
        1,
        0,
    )


FAULTS: dict[str, dict[str, Any]] = {
    "StokerLoopStalled": {"bad": frozenset({"loop"})},
    "StokerStoreNotWritable": {"bad": frozenset({"store"})},
    "StokerDiskFull": {"bad": frozenset({"disk"})},
    "StokerMesosDisconnected": {"bad": frozenset({"mesos"})},
    "StokerFallbackDecides": {"busy": 12.0},
    "StokerPolicyFails": {"faults": 9},
    "StokerProviderFails": {"trouble": "it does not answer"},
    "StokerOpensInVain": {"calls": {("open", "ok"): 1, ("open", "capacity"): 6}},
    "StokerBudgetSpent": {"spent": BudgetStatus("2026-11-22", 5.0, 5.5, hold=False)},
    "StokerEstimatesBad": {"covered": Coverage(IntervalCounts(50, 5, 45))},
    "StokerJobsWaitTooLong": {"waits": 100.0},
    "StokerExecutorsLost": {"lost": 11},
    "StokerWebhookFails": {"hook": {"fails_since": 1.0}},
    "StokerWebhookGivesUp": {"hook": {"given_up": 1}},
    "StokerTracesFail": {"tracing": {"fails_since": 1.0}},
    "StokerTracesGivenUp": {"tracing": {"given_up": 1}},
}


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_each_fault_raises_its_own_alert(store: Store, fault: str) -> None:
    """And no other; without one there is none."""
    scheduler = Rigged(store)
    for name, value in FAULTS.get(fault, {}).items():
        setattr(scheduler, name, value)
    scheduler.stages.waits_since = getattr(scheduler, "waits", None)
    if lost := getattr(scheduler, "lost", 0):
        tasks = tuple(map(task, range(lost)))
        scheduler.stages.observe(Changes((), tasks))
    text = shown(scheduler, store) + UP
    assert [rule["alert"] for rule in RULES if holds(rule["expr"], text)] == ([fault] if fault else [])
