"""Prometheus metrics: the jobs, the cluster and the bill as of now, and the HTTP requests so far."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import get_args

import prometheus_client
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from daemon.core.cluster_status import ClusterStatus, OpenState
from daemon.core.errors import ElsewhereError
from daemon.core.status import ShadowStatus
from daemon.http.queue_metrics import of_queues
from daemon.http.server.scheduler_interface import Leadership, Scheduler
from daemon.notifications.notification_service import NotificationService
from daemon.scheduler.stage_timings import Stages
from daemon.store.job_store import Store
from daemon.store.rows.tables import OPEN_EXECUTOR
from environment.model.messages.states import JobState
from environment.model.messages.vm_accounts import Vain

#: Checks of /readyz that may be bad.
CHECKS = ("mesos", "store", "loop", "disk", "rows", "provider", "budget", "clock", "events", "leader")
#: Clients may invent methods; only these get a time series of their own.
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class Metrics:
    """One server's metrics, in a registry of their own."""

    def __init__(
        self, leadership: Leadership, store: Store, wrong_tokens: Callable[[], int] = lambda: 0
    ) -> None:
        """`wrong_tokens` says how many have come that are none."""
        self._registry = CollectorRegistry()
        self._registry.register(_StateCollector(leadership, store, wrong_tokens))
        self._requests = prometheus_client.Counter(
            "stoker_http_requests",
            "HTTP requests answered",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "stoker_http_request_seconds", "Time to answer", ["method", "route"], registry=self._registry
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer; status 0 stands for none."""
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        """Everything in Prometheus' text format; StoreError when the store cannot be read."""
        return generate_latest(self._registry)


class _StateCollector(Collector):
    """Reads store and scheduler whenever somebody asks."""

    def __init__(self, leadership: Leadership, store: Store, wrong_tokens: Callable[[], int]) -> None:
        self._leadership = leadership
        self._store = store
        self._wrong_tokens = wrong_tokens

    def describe(self) -> list[Metric]:
        """Nothing: names need not be checked against each other, and nothing is to be read for it."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics with their present values."""
        yield from self._jobs()
        text = "Requests with an invalid token since the start"
        yield CounterMetricFamily("stoker_wrong_tokens", text, self._wrong_tokens())
        try:
            leader = self._leadership.leader()
            found = [
                *_decisions(leader),
                *_stages(leader.stages),
                *_cluster(leader),
                *_webhooks(leader.webhooks),
                *_traces(leader.webhooks),
                *of_queues(leader.queues.all()),
            ]
        except ElsewhereError:
            found = []  # known to the leader alone
        text = "1 on the leader, 0 on a standby"
        yield GaugeMetricFamily("stoker_leader", text, bool(found))
        yield from found

    def _jobs(self) -> Iterator[Metric]:
        counts, totals = self._store.jobs.count_by_state(), self._store.jobs.totals()
        jobs = GaugeMetricFamily("stoker_jobs", "Jobs by state", labels=["state"])
        for state in get_args(JobState):
            jobs.add_metric([state], counts.get(state, 0))
        yield jobs
        bad, text = self._leadership.live().health().bad, "1 while this check of /readyz fails"
        trouble = GaugeMetricFamily("stoker_trouble", text, labels=["check"])
        for check in CHECKS:
            trouble.add_metric([check], check in bad)
        yield trouble
        held = sum(totals.executors.get(state, 0) for state in OPEN_EXECUTOR)
        yield GaugeMetricFamily("stoker_executors_open", "Executors and drivers that hold resources", held)
        yield CounterMetricFamily("stoker_cost_dollars", "Cost of all jobs, in dollars", totals.cost)
        text = "Cost of VMs from opened to closed, in dollars, by kind and by pool"
        paid = CounterMetricFamily("stoker_bill_dollars", text, labels=["kind", "pool"])
        differs = GaugeMetricFamily(
            "stoker_bill_difference_dollars",
            "Cost of VMs beyond that by their providers' own account, in dollars",
            labels=["pool"],
        )
        vain = dict.fromkeys(get_args(Vain), 0.0)
        for (kind, pool), dollars in sorted(self._store.vms.bill_by_pool().items()):
            if kind == "difference":
                differs.add_metric([pool], dollars)
            elif kind in vain:
                vain[kind] += dollars
            elif kind != "covered":
                paid.add_metric([kind, pool], dollars)
        yield paid
        yield differs
        text = "Lost work of preempted jobs, in dollars"
        yield CounterMetricFamily("stoker_preempted_dollars", text, vain["lost"])
        text = "Cost of attempts that had too little memory, before a restart with more, in dollars"
        yield CounterMetricFamily("stoker_memory_lost_dollars", text, vain["memory"])
        text = "Rows of the job store that could not be read at the last attempt"
        yield GaugeMetricFamily("stoker_store_damaged_rows", text, len(self._store.damages.all()))


def _decisions(scheduler: Scheduler) -> Iterator[Metric]:
    policy = scheduler.policy()
    decisions = CounterMetricFamily("stoker_decisions", "Decisions since the start", labels=["outcome"])
    decisions.add_metric(["place"], policy.placed)
    decisions.add_metric(["wait"], policy.waited)
    yield decisions
    text = "Decisions replaced by the fallback's since the start"
    yield CounterMetricFamily("stoker_decision_faults", text, policy.faults)
    text = "Decisions cut short by the policy's own time limit since the start"
    yield CounterMetricFamily("stoker_decisions_cut_short", text, policy.cut_short)
    text = "Decisions by a guard in place of a learned policy since the start"
    yield CounterMetricFamily("stoker_decisions_guarded", text, policy.guarded)
    text = "Seconds since the start of a decision of the policy that timed out and still runs"
    yield GaugeMetricFamily("stoker_policy_busy_seconds", text, policy.busy)

    found = scheduler.coverage()
    text = "True starts, ends and costs of jobs within, before or after the first 90 % interval"
    coverage = CounterMetricFamily("stoker_estimates", text, labels=["of", "came"])
    for of, held in (("start", found.start), ("end", found.end), ("cost", found.cost)):
        for came, number in (("within", held.within), ("before", held.before), ("after", held.after)):
            coverage.add_metric([of, came], number)
    yield coverage
    if policy.shadow is not None:
        yield from _shadow(policy.shadow)


def _stages(stages: Stages) -> Iterator[Metric]:
    yield from stages.collect()
    since = stages.waits_since
    text = "Wait of the longest waiting job, without jobs held by a dependency or start time, in seconds"
    wait = 0.0 if since is None else max(0.0, time.time() - since)
    yield GaugeMetricFamily("stoker_longest_wait_seconds", text, wait)


def _webhooks(service: NotificationService) -> Iterator[Metric]:
    text = "Outcomes of requests to webhooks since this daemon leads"
    deliveries = CounterMetricFamily("stoker_webhook_deliveries", text, labels=["webhook", "came"])
    text = "Seconds for which a webhook has accepted no request; 0 when it accepted the last one"
    failing = GaugeMetricFamily("stoker_webhook_failing_seconds", text, labels=["webhook"])
    for webhook in service.status():
        for came, number in webhook.came.items():
            deliveries.add_metric([webhook.name, came], number)
        since = webhook.fails_since
        failing.add_metric([webhook.name], 0.0 if since is None else max(0.0, time.time() - since))
    yield deliveries
    yield failing


def _traces(service: NotificationService) -> Iterator[Metric]:
    if (tracing := service.traces()) is None:
        return
    text = "Outcomes of requests with the trace of a job since this daemon leads"
    traces = CounterMetricFamily("stoker_traces", text, labels=["came"])
    for came, number in tracing.came.items():
        traces.add_metric([came], number)
    yield traces
    text = "Spans rejected by the collector in accepted traces, since this daemon leads"
    yield CounterMetricFamily("stoker_spans_rejected", text, tracing.rejected)
    text = "Seconds for which the collector has accepted no trace; 0 when it accepted the last one"
    since = tracing.fails_since
    failing = 0.0 if since is None else max(0.0, time.time() - since)
    yield GaugeMetricFamily("stoker_traces_failing_seconds", text, failing)


def _cluster(scheduler: Scheduler) -> Iterator[Metric]:
    if (budget := scheduler.budget()) is not None:
        if budget.per_day is not None:
            text = "Budget of VMs for a day (UTC), in dollars"
            yield GaugeMetricFamily("stoker_budget_dollars", text, budget.per_day)
        text = "Cost of VMs today (UTC), in dollars"
        yield GaugeMetricFamily("stoker_budget_spent_dollars", text, budget.spent)
    cluster = scheduler.cluster()
    vms = [vm for vm in cluster.vms if vm.state in ("up", "unreachable", "draining")]
    for name, text, value in (
        ("vms", "VMs that are up", len(vms)),
        ("cpus", "Cpus of all VMs", sum(vm.cpus for vm in vms)),
        ("cpus_used", "Cpus held by executors and drivers", sum(vm.used_cpus for vm in vms)),
        ("memory_mib", "Memory of all VMs, MiB", sum(vm.memory_mib for vm in vms)),
        ("memory_used_mib", "Memory held, MiB", sum(vm.used_memory_mib for vm in vms)),
    ):
        yield GaugeMetricFamily(f"stoker_{name}", text, value)
    text = "Failures of jobs with too little memory since the start"
    yield CounterMetricFamily("stoker_memory_failures", text, cluster.memory.failures)
    text = "Restarts of jobs with more memory since the start"
    yield CounterMetricFamily("stoker_memory_restarts", text, cluster.memory.restarts)
    text = (
        "MiB-seconds of the executors of ended jobs since the start: paid for all, reported for those with a "
        "known peak, used at their peaks"
    )
    seconds = CounterMetricFamily("stoker_memory_mib_seconds", text, labels=["kind"])
    for kind, amount in cluster.memory_seconds._asdict().items():
        seconds.add_metric([kind], amount)
    yield seconds
    yield from _leases(cluster)


def _leases(cluster: ClusterStatus) -> Iterator[Metric]:
    text = "VMs of pools that are billed now"
    leases = GaugeMetricFamily("stoker_leases", text, labels=["pool", "state"])
    counts = Counter((vm.pool, vm.state) for vm in cluster.vms if vm.pool)
    for pool, state in product((pool.name for pool in cluster.pools), get_args(OpenState)):
        leases.add_metric([pool, state], counts[pool, state])
    yield leases
    text = "Calls to the provider since the start, by outcome"
    calls = CounterMetricFamily("stoker_provider_calls", text, labels=["call", "outcome"])
    for (call, outcome), number in sorted(cluster.provider.calls.items()):
        calls.add_metric([call, outcome], number)
    yield calls
    text = "1 while a request to it fails and is tried again"
    yield GaugeMetricFamily("stoker_provider_trouble", text, bool(cluster.provider.trouble))


def _shadow(shadow: ShadowStatus) -> Iterator[Metric]:
    text = "Decisions of the shadow policy since it was set"
    decisions = CounterMetricFamily("stoker_shadow_decisions", text, labels=["outcome"])
    decisions.add_metric(["same"], shadow.compared - shadow.different)
    decisions.add_metric(["different"], shadow.different)
    decisions.add_metric(["missed"], shadow.missed)
    decisions.add_metric(["fault"], shadow.faults)
    yield decisions
