"""Prometheus metrics of queues: those that accept jobs, each by its path, as far as there are few."""

import time
from collections.abc import Iterator, Sequence
from operator import attrgetter

from prometheus_client.core import GaugeMetricFamily, Metric

from daemon.core.queue_status import QueuesStatus, QueueStatus

#: Number of queues with time series of their own, the first of the tree; the others are one together.
MOST_LABELS = 200
#: Name of all other queues together: no queue can have this name.
OTHERS = "(others)"


def of_queues(status: QueuesStatus) -> Iterator[Metric]:
    """Resources and waiting jobs by queue; nothing where there are no queues."""
    leaves = [each for each in status.queues if each.leaf]
    if not leaves:
        return
    labelled = [(each.queue.path, [each]) for each in leaves[:MOST_LABELS]]
    if more := leaves[MOST_LABELS:]:
        labelled.append((OTHERS, more))
    jobs = GaugeMetricFamily("stoker_queue_jobs", "Jobs by queue", labels=["queue", "state"])
    for path, found in labelled:
        jobs.add_metric([path, "running"], sum(each.use.running for each in found))
        jobs.add_metric([path, "waiting"], sum(each.use.waiting for each in found))
    yield jobs
    for name, text, value in (
        ("cpus_used", "Cpus held by jobs, by queue", "use.held.cpus"),
        ("memory_used_mib", "Memory held by jobs, MiB, by queue", "use.held.memory_mib"),
        ("share", "The fraction of the cluster held by jobs, by queue", "use.share"),
        ("used_share", "The same including their decayed past use", "use.used"),
        ("due_share", "The fraction of the cluster that weights make a queue's own", "due"),
        ("dollars_today", "Cost of jobs today (UTC), in dollars, by queue", "use.dollars_today"),
    ):
        of, metric = attrgetter(value), GaugeMetricFamily(f"stoker_queue_{name}", text, labels=["queue"])
        for path, found in labelled:
            metric.add_metric([path], sum(map(of, found)))
        yield metric
    text = "Seconds that the longest waiting job has waited, by queue"
    waits = GaugeMetricFamily("stoker_queue_longest_wait_seconds", text, labels=["queue"])
    for path, found in labelled:
        waits.add_metric([path], _longest(found))
    yield waits


def _longest(found: Sequence[QueueStatus]) -> float:
    since = [each.use.waits_since for each in found if each.use.waits_since is not None]
    return max(0.0, time.time() - min(since)) if since else 0.0
