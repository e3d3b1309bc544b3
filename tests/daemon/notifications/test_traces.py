"""Traces of jobs reach an OpenTelemetry collector over real HTTP: valid, whole, and at nobody's cost."""

import asyncio
import contextlib
import gzip
import json
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from conf.loader import ConfigError, parse
from conf.schema import Config, JobSpec, Telemetry
from conf.util.backoff import Backoff
from daemon.maintenance.config_check import check
from daemon.notifications.job_trace import PastJob, trace_of
from daemon.notifications.notification_service import FACT, NotificationService, TracingStatus
from daemon.notifications.otel_collector import OtelCollector, target_of
from daemon.notifications.otlp import Span, SpanEvent, body
from daemon.notifications.signed_post import PostOutcome
from daemon.store.job_store import Store
from daemon.store.rows.event_recorder import HistoryEvent
from environment.model.cluster_model import Changes
from environment.model.messages.lease import Lease
from environment.model.messages.records import Attempt, ExecutorRecord, JobRecord
from environment.pools import Terms
from environment.resources import Resources
from environment.types import Vm
from tests.daemon.fleet import Starter
from tests.daemon.notifications.otlp_schema import attributes, check_request
from tests.daemon.notifications.receiver import Receiver, look_often, receiving, status
from tests.daemon.store.test_job_store import make_explanation, make_job, make_task, url_of
from tests.waiting import PATIENCE, until

TAKEN = status(200, b"{}", Content_Type="application/json")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "TRACES_ENDPOINT", "HEADERS", "TRACES_HEADERS"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    for name in ("SERVICE_NAME", "RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(f"OTEL_{name}", raising=False)
    look_often(monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store in a file."""
    with contextlib.closing(Store(url_of(tmp_path))) as store:
        yield store


@contextlib.contextmanager
def traced(
    store: Store, receiver: Receiver, may_tell: Callable[[], bool] = lambda: True, **given: Any
) -> Iterator[NotificationService]:
    """Traces are sent within; tried again soon."""
    telemetry = Telemetry(**{"endpoint": receiver.url, **given})
    office = NotificationService({}, store, may_tell, telemetry=telemetry, backoff=Backoff(first=0.01))
    office.start()
    try:
        until(lambda: store.facts.get(FACT) is not None)
        yield office
    finally:
        office.stop()


def seen(office: NotificationService) -> TracingStatus:
    """How well traces are taken."""
    found = office.traces()
    assert found is not None
    return found


def ends(store: Store, state: Any = "finished", **given: Any) -> JobRecord:
    """A job has ended, of which two executors ran."""
    spec = JobSpec(app="count.py", args=("--password", "hunter22"), env={"API_KEY": "hunter22"})
    job, _ = store.jobs.new.add_one(spec, lambda job_id: make_job(job_id, **given), None, 5.0)
    over = replace(
        job, state=state, reason="all is well", cost=0.25, exit_code=0,
        placed_at=7.5, started_at=9.0, finished_at=20.0,
    )  # fmt: skip
    times = {"launched_at": 7.5, "running_at": 8.5, "ended_at": 21.0, "cost": 0.125, "state": "finished"}
    tasks = tuple(make_task(job.job.id, number, **times) for number in range(2))
    happened = [HistoryEvent(time.time(), job.job.id, state, "all is well")]
    store.changes.save(Changes((over,), tasks), [make_explanation(job.job.id)], happened=happened)
    return over


def spans_of(raw: tuple[dict[str, str], bytes]) -> dict[str, list[dict[str, Any]]]:
    """The spans of a valid request, by name."""
    headers, data = raw
    assert headers["Content-Type"] == "application/json"
    found: dict[str, list[dict[str, Any]]] = {}
    for span in check_request(json.loads(data)):
        found.setdefault(span["name"], []).append(span)
    return found


def seconds(span: dict[str, Any]) -> tuple[float, float]:
    """From when to when it was."""
    return int(span["startTimeUnixNano"]) / 1e9, int(span["endTimeUnixNano"]) / 1e9


def test_a_job_is_a_trace(store: Store) -> None:
    """A job is a trace from submission to bill, with VM, user and cost, and without secrets."""
    with receiving([TAKEN]) as receiver, traced(store, receiver) as office:
        record = ends(store, name="nightly", owner="ann", queue="prod", labels=(("team", "etl"),))
        raw = receiver.raw()
        until(lambda: seen(office).came["delivered"] == 1)
        assert (seen(office).rejected, seen(office).fails_since) == (0, None)
    assert raw[0][":path"] == "/hook/s3cret-path/v1/traces"
    assert b"hunter22" not in raw[1]
    spans = spans_of(raw)
    assert {name: len(found) for name, found in spans.items()} == {
        "job": 1, "queue": 1, "decide": 1, "launch": 1, "run": 1, "executor": 2, "bill": 1,
    }  # fmt: skip
    (root,), (bill,) = spans["job"], spans["bill"]
    assert "parentSpanId" not in root
    assert {span.get("parentSpanId", root["spanId"]) for each in spans.values() for span in each} == {
        root["spanId"]
    }
    assert {span["traceId"] for each in spans.values() for span in each} == {root["traceId"]}
    about = attributes(root)
    assert about["stoker.job.id"] == record.job.id
    wanted = {
        "stoker.job.name": "nightly", "stoker.job.type": "sort", "stoker.user": "ann", "stoker.queue": "prod",
        "stoker.policy": "ff", "stoker.vms": ["vm-1"], "stoker.cost": 0.25, "stoker.job.state": "finished",
        "stoker.executors": 2, "stoker.label.team": "etl", "stoker.job.exit_code": 0,
    }  # fmt: skip
    assert {key: about.get(key) for key in wanted} == wanted
    assert "status" not in root
    times = {name: seconds(found[0]) for name, found in spans.items()}
    assert times == {
        "job": (record.job.submitted_at, 21.0), "queue": (record.job.submitted_at, 7.5), "decide": (7.0, 7.5),
        "launch": (7.5, 9.0), "run": (9.0, 20.0), "executor": (7.5, 21.0), "bill": (20.0, 21.0),
    }  # fmt: skip
    assert attributes(bill) == {"stoker.cost": 0.25, "stoker.settled": True}
    assert attributes(spans["executor"][0])["stoker.vm.type"] == "m1.large"
    assert [event["name"] for event in root["events"]] == ["submitted", "finished"]


def test_its_ids_are_the_same_whoever_sends_it() -> None:
    """And no other's: nor those of a job of the same number of another store."""
    job = JobRecord(make_job("job-7", submitted_at=1234.5), state="killed", finished_at=1240.0)
    past = PastJob(job, ())
    other = replace(job, job=replace(job.job, submitted_at=1234.6))
    found = [
        json.loads(body(trace_of(each), {"service.name": "x"}, "1"))
        for each in (past, past, PastJob(other, ()))
    ]
    ids = [[(span["traceId"], span["spanId"]) for span in check_request(each)] for each in found]
    assert ids[0] == ids[1]
    assert not {trace for trace, _ in ids[0]} & {trace for trace, _ in ids[2]}


def times_of(spans: Sequence[Span], name: str) -> list[tuple[float, float, str]]:
    """From when to when spans of a name were, and why they failed."""
    return [(span.start, span.end, span.error) for span in spans if span.name == name]


def test_every_try_is_told() -> None:
    """Of a job that was held, failed by itself, lost its launch, and failed for good."""
    job = make_job("job-1", submitted_at=1.0, owner="ann")
    record = JobRecord(
        job, "failed", "exit code 1", released_at=5.0, placed_at=60.0, started_at=62.0, finished_at=70.0,
        queued_again_at=50.0, retried=1, free_retries=1, exit_code=1,
        attempts=(
            Attempt(12.0, 20.0, "user", "exit code 2"),
            Attempt(None, 45.0, "infrastructure", "vm-1 is gone"),
            Attempt(62.0, 70.0, "user", "exit code 1"),
        ),
    )  # fmt: skip
    tasks = [
        make_task("job-1", 0, launched_at=10.0, running_at=11.0, ended_at=21.0, state="killed"),
        make_task("job-1", 1, launched_at=40.0, ended_at=45.0, state="lost", message="its VM is gone"),
        make_task("job-1", 2, launched_at=60.0, running_at=61.0, ended_at=71.0, state="finished"),
    ]
    trace = trace_of(PastJob(record, tasks, accepted=(0.9, 1.1)))
    assert times_of(trace.spans, "accept") == [(0.9, 1.1, "")]
    assert times_of(trace.spans, "held") == [(1.0, 5.0, "")]
    assert times_of(trace.spans, "queue") == [(5.0, 10.0, ""), (20.0, 40.0, ""), (50.0, 60.0, "")]
    assert times_of(trace.spans, "launch") == [
        (10.0, 12.0, ""),
        (40.0, 45.0, "vm-1 is gone"),
        (60.0, 62.0, ""),
    ]
    assert times_of(trace.spans, "run") == [(12.0, 20.0, "exit code 2"), (62.0, 70.0, "exit code 1")]
    assert [each[2] for each in times_of(trace.spans, "executor")] == ["", "its VM is gone", ""]
    runs = [span.attributes for span in trace.spans if span.name == "run"]
    assert [(each["error.type"], each["stoker.try"]) for each in runs] == [("user", 1), ("user", 3)]
    assert (trace.root.start, trace.root.end, trace.root.error) == (0.9, 71.0, "exit code 1")
    told = check_request(json.loads(body(trace, {"service.name": "x"}, "1")))
    assert {span["status"]["code"] for span in told if "status" in span} == {2}


@pytest.mark.parametrize("state", ["killed", "failed", "finished"])
def test_a_job_that_never_ran_has_waited(state: Any) -> None:
    """Nothing else of it is told; nor is a time that nobody knows."""
    record = JobRecord(make_job("job-1", submitted_at=1.0), state, "no longer wanted", finished_at=9.0)
    trace = trace_of(PastJob(record, (), happened=[SpanEvent(2.0, "waits", "\ud800\x00 odd")] * 200))
    assert [span.name for span in trace.spans] == ["queue", "bill"]
    assert times_of(trace.spans, "queue") == [(1.0, 9.0, "")]
    (root, *_) = check_request(json.loads(body(trace, {"service.name": "x"}, "1")))
    assert (len(root["events"]), root["droppedEventsCount"]) == (128, 72)
    assert ("status" in root) == (state == "failed")
    nowhen = trace_of(PastJob(replace(record, finished_at=None), ()))
    check_request(json.loads(body(nowhen, {"service.name": "x", "nan": float("nan"), "none": None}, "1")))


def test_vms_that_it_waited_for_are_told(store: Store) -> None:
    """Those that booted for its executors while it waited, and no others."""
    vm = Vm(
        "general-1", "m1.large-1", "m1.large", Resources.of(4.0, 16384), 0.24, terms=Terms("general", 60.0)
    )
    booted = Lease("general-1.1", vm, 6.0, "up", "for it", "vm-3", "S1", 6.5, 7.2)
    others = [
        replace(booted, id="general-1.2", agent_id="S9"),
        replace(booted, id="general-1.3", asked_at=1.0, ready_at=1.5),
        replace(booted, id="general-1.4", ready_at=None),
        replace(booted, id="general-1.5", asked_at=8.0, ready_at=9.0),
    ]
    store.changes.save(Changes((), (), leases=(booted, *others)))
    with receiving([TAKEN]) as receiver, traced(store, receiver):
        ends(store, submitted_at=5.0)
        spans = spans_of(receiver.raw())
    (boot,) = spans["boot"]
    assert seconds(boot) == (6.0, 7.2)
    assert attributes(boot)["stoker.pool"] == "general"
    assert attributes(boot)["stoker.lease"] == "general-1.1"


def test_hundreds_of_executors_are_bounded() -> None:
    """A trace stays small; it says how much is left out."""
    record = JobRecord(make_job("job-1"), "finished", finished_at=9.0)
    tasks = [make_task("job-1", number, vm_name=f"vm-{number}", ended_at=9.0) for number in range(1200)]
    trace = trace_of(PastJob(record, tasks))
    data = body(trace, {"service.name": "x"}, "1")
    (root, *rest) = check_request(json.loads(data))
    assert sum(span["name"] == "executor" for span in rest) == 1000
    assert attributes(root)["stoker.executors.left_out"] == 200
    assert len(attributes(root)["stoker.vms"]) == 100
    assert len(data) < 1 << 20


def test_what_may_be_taken_later_is_sent_again(store: Store) -> None:
    """After too many requests, an overload, an answer that never comes or ends, and one that says nothing."""
    with receiving() as receiver:
        receiver.answers = [
            status(429, Retry_After="0"),
            status(503, b'{"message": "overloaded"}'),
            receiver.hang,
            receiver.mumble,
            TAKEN,
        ]
        with traced(store, receiver, timeout=0.5) as office, capture_logs() as logs:
            ends(store)
            assert len({receiver.raw()[1] for _ in range(5)}) == 1
            until(lambda: seen(office).came["delivered"] == 1)
            came = seen(office).came
    assert (came["refused"], came["timeout"], came["given up"]) == (2, 2, 0)
    said = [(line["event"], line.get("why")) for line in logs if line.get("webhook") == "/telemetry"]
    assert said == [
        ("the collector accepts no request", "answered 429"),
        ("the collector accepts requests again", None),
    ]


def test_the_collector_says_when_to_come_again(store: Store) -> None:
    """In seconds, and within bounds; it is not asked before."""
    for said, seconds_long in (("7", 7.0), ("99999999", 300.0)):
        with receiving([status(429, Retry_After=said)]) as receiver, traced(store, receiver) as office:
            ends(store)
            receiver.raw()
            tracer = office._tracer
            assert tracer is not None
            until(partial(getattr, tracer, "_next_at"))
            assert (tracer._next_at or 0.0) - (tracer.fails_since or 0.0) >= seconds_long


@pytest.mark.parametrize("code", [400, 401, 404, 413, 500])
def test_what_is_refused_for_good_is_not_sent_again(store: Store, code: int) -> None:
    """As the protocol wants it; that is counted and said, and the next trace is sent."""
    refusal = status(code, b'{"code": 3, "message": "no such tenant"}')
    with receiving([refusal, TAKEN]) as receiver, traced(store, receiver) as office, capture_logs() as logs:
        first, second = ends(store), ends(store)
        jobs = [attributes(spans_of(receiver.raw())["job"][0])["stoker.job.id"] for _ in range(2)]
        until(lambda: seen(office).came["delivered"] == 1)
        assert receiver.came.empty()
        assert (seen(office).came["refused"], seen(office).came["given up"]) == (1, 1)
    assert jobs == [first.job.id, second.job.id]
    (given_up,) = (line for line in logs if line["event"] == "an event is given up")
    assert (given_up["job"], given_up["why"]) == (first.job.id, f"answered {code}: no such tenant")


@pytest.mark.parametrize(
    ("said", "rejected"),
    [
        (b'{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}', 3),
        (b'{"partialSuccess": {"rejectedSpans": 2}}', 2),
        (b'{"partialSuccess": {"errorMessage": "use TLS"}}', 0),
        (b'{"partialSuccess": {}}', 0),
        (b'{"partialSuccess": "what"}', 0),
        (b'{"partialSuccess": {"rejectedSpans": ["x"]}}', 0),
        (b"[" * 60_000, 0),
        (b"\xff no JSON", 0),
        (b"", 0),
    ],
)
def test_what_is_taken_in_part_is_taken(store: Store, said: bytes, rejected: int) -> None:
    """A partly accepted batch is not sent again; rejected spans are counted and reported, for any answer."""
    with receiving([status(200, said), TAKEN]) as receiver, traced(store, receiver) as office:
        ends(store)
        ends(store)
        assert receiver.raw()[1] != receiver.raw()[1]
        until(lambda: seen(office).came["delivered"] == 2)
        assert receiver.came.empty()
        assert (seen(office).rejected, seen(office).came["given up"]) == (rejected, 0)


def test_an_answer_without_end_is_not_read_to_its_end(store: Store) -> None:
    """An endless answer is read up to a limit."""
    with receiving() as receiver:
        receiver.answers = [receiver.babble, TAKEN]
        with traced(store, receiver) as office:
            ends(store)
            ends(store)
            until(lambda: seen(office).came["delivered"] == 2)


def test_a_collector_that_is_down_is_found_when_it_is_up(store: Store) -> None:
    """Meanwhile it is tried again and again, nobody waits, and another daemon may have started."""
    with receiving() as receiver:
        pass
    with traced(store, receiver) as office:
        record = ends(store)
        until(lambda: seen(office).came["unreachable"] > 1)
        assert seen(office).fails_since is not None
    with receiving([TAKEN]) as later, traced(store, later) as office:
        assert attributes(spans_of(later.raw())["job"][0])["stoker.job.id"] == record.job.id
        until(lambda: seen(office).came["delivered"] == 1)


def test_what_is_too_old_is_given_up(store: Store) -> None:
    """And counted."""
    with receiving() as receiver:
        pass
    with traced(store, receiver, give_up=1.0) as office:
        ends(store)
        until(lambda: seen(office).came["given up"] == 1)


def test_nothing_is_sent_while_another_may_lead(store: Store) -> None:
    """It is when that is certain again."""
    certain: list[bool] = []
    asked: list[None] = []

    def may_tell() -> bool:
        asked.append(None)
        return bool(certain)

    with receiving([TAKEN]) as receiver, traced(store, receiver, may_tell):
        ends(store)
        until(lambda: len(asked) > 1)
        assert receiver.came.empty()
        certain.append(True)
        receiver.raw()


def test_a_job_that_was_pruned_is_passed_over(store: Store) -> None:
    """The next one is told."""
    with receiving([TAKEN]) as receiver, traced(store, receiver):
        gone = HistoryEvent(time.time(), "job-99", "finished", "all is well")
        store.changes.save(Changes((), ()), happened=[gone])
        record = ends(store)
        assert attributes(spans_of(receiver.raw())["job"][0])["stoker.job.id"] == record.job.id


def test_the_cost_is_told_when_it_is_known(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace waits for the end of its job's executors."""
    looked, tasks_of = threading.Event(), store.jobs.open_executors

    def looking(job_id: str) -> list[ExecutorRecord]:
        found = tasks_of(job_id)
        looked.set()
        return found

    monkeypatch.setattr(store.jobs, "open_executors", looking)
    with receiving([TAKEN]) as receiver, traced(store, receiver):
        job, _ = store.jobs.new.add_one(JobSpec(app="a.py"), make_job, None, 5.0)
        failed = replace(job, state="failed", reason="exit code 1", cost=0.1, finished_at=9.0)
        task = make_task(job.job.id, 0, state="running")
        happened = [HistoryEvent(time.time(), job.job.id, "failed", "1")]
        store.changes.save(Changes((failed,), (task,)), happened=happened)
        assert looked.wait(PATIENCE)
        store.changes.save(
            Changes((replace(failed, cost=0.3),), (replace(task, state="killed", ended_at=10.0),))
        )
        spans = spans_of(receiver.raw())
    assert attributes(spans["bill"][0]) == {"stoker.cost": 0.3, "stoker.settled": True}


@pytest.mark.slow
def test_a_daemon_that_is_killed_in_the_middle_breaks_no_trace(fleet: Starter) -> None:
    """A real daemon, killed while its job runs and while the collector hangs: one trace, whole, each time."""
    with receiving() as receiver:
        receiver.answers = [receiver.hang]
        group = fleet(telemetry={"endpoint": receiver.url, "timeout": 60})
        daemon = group.add()
        until(daemon.leads, daemon.log)
        killed_in_the_middle = group.submit(daemon, 2.0)
        group.wait(daemon, killed_in_the_middle, "running")
        daemon.end(signal.SIGKILL)
        daemon.up()
        group.wait(daemon, killed_in_the_middle, "finished")
        first = spans_of(receiver.raw())
        assert daemon.leads()
        quick = group.submit(daemon, 0.0)  # though the collector hangs
        group.wait(daemon, quick, "finished")
        daemon.end(signal.SIGKILL)
        receiver.answers = [TAKEN, TAKEN]
        daemon.up()
        again, second = spans_of(receiver.raw()), spans_of(receiver.raw())
        until(
            lambda: 'stoker_traces_total{came="delivered"} 2.0' in getattr(daemon.get("/metrics"), "text", "")
        )
    assert first == again
    assert attributes(first["job"][0])["stoker.job.id"] == killed_in_the_middle
    assert attributes(second["job"][0])["stoker.job.id"] == quick
    for spans in (first, second):
        assert {"job", "queue", "decide", "launch", "run", "executor", "bill"} <= set(spans)
        assert attributes(spans["bill"][0])["stoker.settled"] is True
        cost = attributes(spans["job"][0])["stoker.cost"]
        assert sum(attributes(task)["stoker.cost"] for task in spans["executor"]) == pytest.approx(cost)


def test_the_way_from_the_request_to_the_bill(fleet: Starter) -> None:
    """Of a real job: from the request on, each stage begins where the last one ended."""
    with receiving([TAKEN]) as receiver:
        group = fleet(telemetry={"endpoint": receiver.url})
        daemon = group.add()
        until(daemon.leads, daemon.log)
        group.submit(daemon, 0.0)
        spans = spans_of(receiver.raw())
    (accept,), (root,) = spans["accept"], spans["job"]
    assert seconds(accept)[0] == seconds(root)[0]
    assert seconds(accept)[0] < seconds(accept)[1]
    way = [seconds(spans[name][0]) for name in ("queue", "launch", "run", "bill")]
    assert [before[1] for before in way[:-1]] == [after[0] for after in way[1:]]
    assert way[-1][1] == seconds(root)[1]
    assert seconds(spans["decide"][0])[1] == way[0][1]
    assert attributes(root)["stoker.policy"] == "rr"


GOOD = "endpoint: 'https://example.org:4318'"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{endpoint: example.org}", "telemetry.endpoint: should be a URL such as"),
        ("{endpoint: 'https://a:b@example.org'}", "without a user, a password"),
        (f"{{{GOOD}, timeout: 0}}", "should be greater than or equal to 0.1"),
        (f"{{{GOOD}, header_file: x}}", "unknown key; did you mean headers_file?"),
        (f"{{{GOOD}, service_name: ''}}", "telemetry.service_name"),
    ],
)
def test_a_config_that_is_none(written: str, said: str) -> None:
    """A wrong setting is refused with the right form."""
    with pytest.raises(ConfigError) as error:
        parse(f"telemetry: {written}", Config, "stoker.yaml")
    assert said in str(error.value)


def test_what_the_config_leaves_out_is_as_the_environment_says() -> None:
    """As OpenTelemetry's variables mean it; the config goes before."""
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/base/",
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b, x=y",
        "OTEL_SERVICE_NAME": "stoker-prod",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=prod,service.name=other,odd",
    }
    found = target_of(Telemetry(), environ)
    assert found.url == "http://collector:4318/base/v1/traces"
    assert found.headers == {"api-key": "a b", "x": "y"}
    assert found.resource["service.name"] == "stoker-prod"
    assert found.resource["deployment.environment.name"] == "prod"
    whole = {**environ, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces:1/as/it/is"}
    assert target_of(Telemetry(), whole).url == "http://traces:1/as/it/is"
    said = target_of(Telemetry(endpoint="http://here:4318/v1/traces", service_name="mine"), whole)
    assert (said.url, said.resource["service.name"]) == ("http://here:4318/v1/traces", "mine")
    assert target_of(Telemetry(endpoint="http://here:4318"), {}).resource["service.name"] == "stoker"
    assert "a b" not in repr(found)


def test_what_is_missing_or_wrong_is_said_before_a_daemon_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    """`config check` says so too; no secret is shown."""
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer s3cret\nno header s3cret\n")
    headers.chmod(0o600)
    for written, said in (
        ("{}", "telemetry.endpoint: missing: set it, for example to http://localhost:4318"),
        (f"{{{GOOD}, headers_file: {tmp_path}/none}}", "No such file"),
        (f"{{{GOOD}, headers_file: {headers}}}", "the header number 2 is none, such as Name: value"),
        (f"{{{GOOD}, ca: {tmp_path}/none}}", "telemetry.ca: .*No such file"),
    ):
        config = parse(f"telemetry: {written}", Config, "stoker.yaml")
        with pytest.raises(ConfigError, match=said) as error:
            NotificationService({}, store, telemetry=config.telemetry)
        assert "s3cret" not in str(error.value)
        (found,) = (each for each in check(config, tmp_path) if each.key == "telemetry")
        assert found.verdict == "error"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_ENDPOINT should be a URL"):
        target_of(Telemetry())
    headers.write_text("Authorization: Bearer s3cret\n")
    for endpoint, verdict, what in (
        ("https://example.org:4318", "ok", "traces of jobs go to https://example.org:4318; its headers: "),
        ("http://example.org:4318", "warning", "not encrypted"),
        ("https://example.org:4317", "warning", "is the port of OTLP over gRPC"),
    ):
        config = parse(
            f"telemetry: {{endpoint: '{endpoint}', headers_file: {headers}}}", Config, "stoker.yaml"
        )
        (found,) = (each for each in check(config, tmp_path) if each.key == "telemetry")
        assert (found.verdict, what in found.what, "s3cret" in found.what) == (verdict, True, False)
    (none,) = (each for each in check(Config(), tmp_path) if each.key == "telemetry")
    assert (none.verdict, none.what) == ("ok", "none")


def test_headers_go_with_every_request(store: Store, tmp_path: Path) -> None:
    """The file's headers go with every request and never into the log."""
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer s3cret-token\n\nX-Scope-OrgID: prod\n")
    with receiving([status(503), TAKEN]) as receiver, capture_logs() as logs:
        with traced(store, receiver, headers_file=str(headers)):
            ends(store)
            sent = receiver.raw()[0]
            receiver.raw()
        assert (sent["Authorization"], sent["X-Scope-OrgID"]) == ("Bearer s3cret-token", "prod")
    assert "s3cret" not in str(logs)


EXAMPLE = Path(__file__).parents[3] / "examples/traces.py"


def test_the_example_shows_what_comes(store: Store) -> None:
    """The collector of the documentation takes a trace, and prints it."""
    command = [sys.executable, str(EXAMPLE), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            with traced(store, Receiver(url)) as office:
                ends(store, state="failed")
                until(lambda: seen(office).came["delivered"] == 1)
            shown = [process.stdout.readline() for _ in range(9)]
        finally:
            process.kill()
    assert re.fullmatch("trace [0-9a-f]{32}\n", shown[0])
    root = "16.000 job job.id=job-1 job.state=failed queue=default policy=ff cost=0.2500 failed: all is well"
    assert root.split() == shown[1].split()[1:]
    assert {line.split()[2] for line in shown[1:]} == {
        "job",
        "queue",
        "decide",
        "launch",
        "run",
        "executor",
        "bill",
    }


def test_an_answer_that_would_unpack_to_anything_is_read_as_sent() -> None:
    """Two layers of gzip are a million times as long, which would be the end of the daemon."""
    packed = gzip.compress(gzip.compress(bytes(1 << 26)))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    tracemalloc.start()
    try:
        assert _outcome(head.encode() + packed).came == "delivered"
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pause", ["123456789xyz", "12345678\u00b2", "1e5", "9" * 5000, "-1"])
def test_a_pause_that_is_no_number_loses_nothing(pause: str) -> None:
    """The trace is sent again as usual."""
    head = f"HTTP/1.1 503 Later\r\nRetry-After: {pause}\r\nContent-Length: 0\r\n\r\n"
    outcome = _outcome(head.encode("latin-1"))
    assert (outcome.came, outcome.final) == ("refused", False)
    assert outcome.pause in (0.0, 300.0)


def _outcome(answer: bytes) -> PostOutcome:
    """The outcome of a request to a collector that gives this answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def ask() -> PostOutcome:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        collector = OtelCollector(target_of(Telemetry(endpoint=url), {}))
        try:
            return await collector.send(b"{}")
        finally:
            await collector.close()
            server.close()

    return asyncio.run(ask())
