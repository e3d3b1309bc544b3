"""Seconds that each stage of a job takes, and the ends of executors, for Prometheus.

Stages are accept (from the request to the disk), queue (from when it began to wait, or to wait again, until
its executors have places), order (finding the next job), decide (one round of decisions), launch (an
executor, until it runs), boot (a VM, until it is up) and run (from start to end). `metrics.py`
has the other metrics.
"""

import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from prometheus_client import Counter, Histogram
from prometheus_client.core import Metric

from environment.model.cluster_model import Changes
from environment.model.messages.states import ENDED_EXECUTOR

Stage = Literal["accept", "queue", "order", "decide", "launch", "boot", "run"]
#: Seconds: a decision takes microseconds, and a job a day.
BUCKETS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 900, 3600, 14400, 86400)
#: Number of jobs, tasks and VMs whose last reports are remembered: their records come again and again.
_REMEMBERED = 200_000


class Stages:
    """Since the start of a term. `observe` is for the loop; `timed`, `collect` for any thread."""

    def __init__(self, began: float) -> None:
        """Events before `began` (seconds) were counted by an earlier daemon."""
        self._began = began
        self._told: OrderedDict[tuple[Stage | None, str, float], None] = OrderedDict()
        self._seconds = Histogram(
            "stoker_stage_seconds",
            "Seconds of a stage of a job, an executor or a VM, or of the daemon's work for them",
            ["stage"],
            buckets=BUCKETS,
            registry=None,
        )
        text = "Executors and drivers on the cluster that ended, by how"
        self._ended = Counter("stoker_executors_ended", text, ["state"], registry=None)
        for stage in get_args(Stage):
            self._seconds.labels(stage)
        for state in sorted(ENDED_EXECUTOR):
            self._ended.labels(state)
        #: Since when the longest waiting job has waited, seconds; None where none waits. For the loop to set.
        self.waits_since: float | None = None

    @contextmanager
    def timed(self, stage: Stage) -> Iterator[None]:
        """Observe how long this takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds.labels(stage).observe(time.monotonic() - began)

    def observe(self, changes: Changes) -> None:
        """Count the stages of these stored records, each once."""
        for job in changes.jobs:
            self._stage("queue", job.job.id, job.waits_since, job.placed_at)
            if job.ended:
                self._stage("run", job.job.id, job.started_at, job.finished_at)
        for task in changes.executors:
            self._stage("launch", task.task_id, task.launched_at, task.running_at)
            if task.ended_at is not None and self._is_news(None, task.task_id, task.ended_at):
                self._ended.labels(task.state).inc()
        for lease in changes.leases:
            self._stage("boot", lease.id, lease.asked_at, lease.ready_at)

    def _stage(self, stage: Stage, name: str, since: float | None, until: float | None) -> None:
        if since is not None and until is not None and self._is_news(stage, name, until):
            self._seconds.labels(stage).observe(max(0.0, until - since))

    def _is_news(self, stage: Stage | None, name: str, at: float) -> bool:
        key = (stage, name, at)
        if at < self._began or key in self._told:
            return False
        self._told[key] = None
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        return True

    def collect(self) -> Iterator[Metric]:
        """Metrics of the stages."""
        yield from self._seconds.collect()
        yield from self._ended.collect()
