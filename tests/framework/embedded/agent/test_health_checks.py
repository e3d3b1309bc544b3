"""Mistakes that frameworks and operators make: the embedded master answers as a real one was recorded to.

The recording has one answer for each labelled call; the calls are made here. A real master's answers about
parts that are not embedded (files, logging, its own help) are left out.
"""

import contextlib
import http.client
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.framework.embedded.running import Json, Mesos, Subscription, framework_info, running, scalar, task
from tests.waiting import until

REAL = Path(__file__).resolve().parents[5] / "shared" / "mesos-wire" / "probes" / "real.json"
SCHEDULER = "/api/v1/scheduler"
QUICK: dict[str, Any] = {"allocation_interval": 0.02}

#: Begins like the recorded one, and goes on in words of its own.
NOT_EMBEDDED = {"GET /help"}
#: The words after these end with what the recorded agent had to offer.
_OFFERED = re.compile("(is more than available ).*")
_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-[OS]?\d+)?")


@pytest.fixture(scope="module")
def real() -> dict[str, Any]:
    """A real master's recorded answers, by label."""
    if not REAL.is_file():
        pytest.skip(f"the recorded answers are not here: {REAL}")
    return dict(json.loads(REAL.read_text()))


@pytest.fixture(scope="module")
def mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesos]:
    """One embedded Mesos for all calls."""
    with running(tmp_path_factory.mktemp("mesos"), **QUICK) as mesos:
        yield mesos


def told(text: str) -> str:
    """A text without ids and without differences of Mesos builds, as far as the recording stored it."""
    text = text.replace("git_branch,", "")
    return _OFFERED.sub(r"\1", _IDS.sub("~", text)[:200])


def assert_alike(real: dict[str, Any], ours: dict[str, Any], least: int) -> None:
    """Every answer of ours that was recorded is the recorded one; so many were compared at least."""
    compared = {label: answer for label, answer in ours.items() if label in real.keys() - NOT_EMBEDDED}
    theirs = {label: _plain(real[label]) for label in compared}
    different = {
        label: (theirs[label], compared[label]) for label in compared if theirs[label] != compared[label]
    }
    assert not different, json.dumps(different, indent=1)
    assert len(compared) >= least


def _plain(answer: Any) -> Any:
    """The recorded answer, texts without ids."""
    if isinstance(answer, list):
        return [_plain(each) for each in answer]
    return told(answer) if isinstance(answer, str) else answer


# ---- subscriptions and forms ---------------------------------------------------------------------------


def infos() -> dict[str, Json]:
    """Framework descriptions, right and wrong."""
    base = {"user": "root", "name": "d", "roles": ["r"], "failover_timeout": 0.0}
    base |= {"capabilities": [{"type": "MULTI_ROLE"}]}
    made = {
        f"role {role}": base | {"roles": [role]}
        for role in ("a//b", "*", ".", "-x", "a b", "a/", "a/*", "x\\y", "a/..")
    }
    for name in ("user", "name"):
        made[f"no {name}"] = {key: value for key, value in base.items() if key != name}
    quantities = {"cpus": {"value": 1}}

    def offer_filters(entry: Json) -> Json:
        return {"offer_filters": {"r": {"min_allocatable_resources": {"quantities": [entry]}}}}

    return made | {
        "dup roles": base | {"roles": ["a", "a"]},
        "role and roles": base | {"role": "q"},
        "huge failover": base | {"failover_timeout": 1e30},
        "str failover": base | {"failover_timeout": "abc"},
        "str num failover": base | {"failover_timeout": "1.5"},
        "unknown cap": base | {"capabilities": [{"type": "FOO"}, {"type": "MULTI_ROLE"}]},
        "user empty": base | {"user": ""},
        "extra field": base | {"foo": 1},
        "principal": base | {"principal": "p"},
        "id only in info": base | {"id": {"value": "zz"}},
        "id only in call": base,
        "id empty both": base | {"id": {"value": ""}},
        "offer_filters": base | offer_filters({"quantities": quantities}),
        "offer_filters with default": base | offer_filters({}),
    }


def test_subscriptions(mesos: Mesos, real: dict[str, Any]) -> None:
    """Frameworks that may subscribe, and the refusals for those that may not."""
    ours = {}
    for label, info in infos().items():
        body: Json = {"type": "SUBSCRIBE", "subscribe": {"framework_info": info}}
        ids = {"id only in call": "zz", "id empty both": ""}
        body |= {"framework_id": {"value": ids[label]}} if label in ids else {}
        ours[f"SUB {label}"] = answer_of(mesos, body)
    assert_alike(real, ours, 25)


def answer_of(mesos: Mesos, body: Json) -> list[Any]:
    """Status and text of the answer to a SUBSCRIBE, or its first event."""
    connection = http.client.HTTPConnection(mesos.address, timeout=300.0)
    with contextlib.closing(connection):
        connection.request("POST", SCHEDULER, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            return [answer.status, told(answer.read().decode())]
        event = json.loads(answer.read(int(answer.readline())))
        return [200, told(f"{event['type']} {json.dumps(event.get('error', ''))}")]


def test_forms(mesos: Mesos, real: dict[str, Any]) -> None:
    """Requests that are no calls."""
    kind = {"Content-Type": "application/json"}
    subscribe = {"type": "SUBSCRIBE", "subscribe": {"framework_info": framework_info()}}
    forms: dict[str, tuple[dict[str, str], str]] = {
        "no ct": ({}, "{}"),
        "text": ({"Content-Type": "text/plain"}, "{}"),
        "garbage": (kind, "{x"),
        "list": (kind, "[]"),
        "accept xml": (kind | {"Accept": "text/xml"}, json.dumps(subscribe)),
        "no type": (kind, "{}"),
        "no subscribe": (kind, '{"type":"SUBSCRIBE"}'),
        "type lower": (kind, '{"type":"subscribe"}'),
        "no fid": (kind, '{"type":"REVIVE"}'),
    }
    ours = {f"POST {label}": plain(mesos, "POST", SCHEDULER, *form) for label, form in forms.items()}
    for method in ("GET", "PUT", "DELETE", "HEAD", "OPTIONS"):
        ours[f"{method} {SCHEDULER}"] = plain(mesos, method, SCHEDULER, {}, None)
    assert_alike(real, ours, 14)


def plain(mesos: Mesos, method: str, path: str, headers: dict[str, str], body: str | None) -> list[Any]:
    """Status and text of an answer."""
    connection = http.client.HTTPConnection(mesos.address, timeout=300.0)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return [answer.status, told(answer.read().decode())]


# ---- launches and calls --------------------------------------------------------------------------------


class Probe:
    """A framework that makes calls, and records their outcomes."""

    def __init__(self, mesos: Mesos, scheduler: Subscription, real: dict[str, Any]) -> None:
        self.mesos = mesos
        self.scheduler = scheduler
        self.real = real
        self.ours: dict[str, Any] = {}
        self.task_names: dict[str, str] = {}
        self._offers: list[Json] = []
        self._barriers = 0

    def offer(self) -> Json:
        """An offer to role r."""
        fits = [o for o in self._offers if o["allocation_info"]["role"] == "r" and scalar(o, "cpus") >= 1]
        while not fits:
            self.scheduler.call("REVIVE")
            self._offers += self.scheduler.offers()
            fits = [o for o in self._offers if o["allocation_info"]["role"] == "r" and scalar(o, "cpus") >= 1]
        self._offers.remove(fits[0])
        return fits[0]

    def make(self, label: str, kind: str, body: Json | None) -> None:
        """Make a call, and wait for as many updates as were recorded, and for all of the master's own."""
        if label not in self.real:
            return
        events = self.real[label][1]
        call: Json = {"type": kind, "framework_id": {"value": self.scheduler.framework_id}}
        call |= {kind.lower(): body} if body is not None else {}
        head = {"Mesos-Stream-Id": self.scheduler.stream_id}
        ours_status, text = self.mesos.request("POST", SCHEDULER, call, **head)
        wanted = sum(event[0] == "UPDATE" for event in events)
        self.ours[label] = [[ours_status, told(str(text))], sorted(self._updates(wanted), key=str)]

    def _updates(self, wanted: int) -> list[list[Any]]:
        """Updates until there are so many, and those that the master has made by then."""
        self._barriers += 1
        barrier, seen, passed = f"barrier-{self._barriers}", list[list[Any]](), False
        self.scheduler.call("RECONCILE", {"tasks": [{"task_id": {"value": barrier}}]})
        while len(seen) < wanted or not passed:
            event = self.scheduler.next_event()
            assert event is not None
            if event["type"] == "OFFERS":
                self._offers += event["offers"]["offers"]
            if event["type"] == "RESCIND":
                self._offers = [o for o in self._offers if o["id"] != event["rescind"]["offer_id"]]
            if event["type"] != "UPDATE":
                continue
            status = event["update"]["status"]
            if "uuid" in status:
                self.scheduler.acknowledge(status)
            if status["task_id"]["value"] == barrier:
                passed = True
                continue
            seen.append(
                [
                    "UPDATE",
                    self.task_names.get(status["task_id"]["value"], status["task_id"]["value"]),
                    status["state"],
                    status.get("reason"),
                    status["source"],
                    told(status.get("message", "")[:160]),
                    "uuid" in status,
                    "healthy" in status,
                ]
            )
        return seen

    def launch(self, label: str, *, times: int = 1, **fields: Any) -> None:
        """Launch a task that is as it should be but for these fields; None leaves one out."""
        if label not in self.real:
            return
        offer = self.offer()
        number = f"t{len(self.task_names) + 1}"
        # Tasks are numbered otherwise there, as calls were made that are not recorded.
        theirs = [event[1] for event in self.real[label][1]]
        self.task_names[number] = theirs[0] if theirs else number
        info = {
            "name": "t", "task_id": {"value": number}, "agent_id": offer["agent_id"], "resources": amounts(),
            "command": {"shell": True, "value": "exit 0"}, **fields,
        }  # fmt: skip
        info = {name: value for name, value in info.items() if value is not None}
        operation = {"type": "LAUNCH", "launch": {"task_infos": [info] * times}}
        filters = {"refuse_seconds": 0.0}
        self.make(
            label, "ACCEPT", {"offer_ids": [offer["id"]], "operations": [operation], "filters": filters}
        )


def amounts(cpus: float = 0.1, mem: float = 32, **more: Json) -> list[Json]:
    """Resources for role r."""
    allocated = {"allocation_info": {"role": "r"}}
    scalars = [("cpus", cpus), ("mem", mem)]
    plain_ones = [{"name": n, "type": "SCALAR", "scalar": {"value": v}} | allocated for n, v in scalars]
    return plain_ones + [{"name": name} | resource | allocated for name, resource in more.items()]


def launch_all(probe: Probe) -> None:
    """Every launch of the recording."""
    launch = probe.launch

    def shell(value: str, **more: Any) -> Json:
        return {"shell": True, "value": value, **more}

    def variable(**fields: Any) -> Json:
        return {"environment": {"variables": [{"name": "A", **fields}]}}

    secret = {"type": "VALUE", "value": {"data": "aGk="}}
    one = {"type": "SCALAR", "scalar": {"value": 1}}
    launch("ok task")
    launch("exit 3", command=shell("exit 3"))
    launch("argv missing", command={"shell": False, "value": "/no/such"})
    launch("no resources", resources=[])
    launch("cpus 0", resources=amounts(0, 32))
    launch("cpus negative", resources=amounts(-1, 32))
    launch("cpus 0.0001", resources=amounts(0.0001, 32))
    launch("too much", resources=amounts(9999, 32))
    launch("unknown resource", resources=amounts(zork=one))
    launch("no allocation_info", resources=[{**r, "allocation_info": {}} for r in amounts()])
    launch("task id slash", task_id={"value": "a/b"})
    launch("task id empty", task_id={"value": ""})
    launch("task id dots", task_id={"value": ".."})
    launch("same id twice", task_id={"value": "dup"}, times=2)
    launch("max_completion negative", max_completion_time={"nanoseconds": -5})
    launch("env without value", command=shell("exit 0", **variable()))
    launch("secret env", command=shell('test "$A" = hi', **variable(type="SECRET", secret=secret)))
    launch("secret without secret", command=shell("exit 0", **variable(type="SECRET")))
    launch("health http", health_check={"type": "HTTP"})
    ports = {"type": "RANGES", "ranges": {"range": [{"begin": 1, "end": 2}]}}
    launch("port not offered", resources=amounts(ports=ports))
    launch("gpus 0.5", resources=amounts(gpus={"type": "SCALAR", "scalar": {"value": 0.5}}))


def call_all(probe: Probe) -> None:
    """Every other call of the recording."""
    make: Callable[[str, str, Json | None], None] = probe.make
    nope = {"offer_ids": [{"value": "nope"}]}
    info = {"name": "t", "task_id": {"value": "tx"}, "agent_id": {"value": "q"}, "resources": amounts()}
    launch = {"type": "LAUNCH", "launch": {"task_infos": [info | {"command": {"value": "exit 0"}}]}}
    at_once = {"filters": {"refuse_seconds": 0}}
    make(
        "unknown op",
        "ACCEPT",
        {"offer_ids": [probe.offer()["id"]], "operations": [{"type": "FOO"}], **at_once},
    )
    make("no ops", "ACCEPT", {"offer_ids": [probe.offer()["id"]], **at_once})
    make("refuse neg", "DECLINE", {"offer_ids": [probe.offer()["id"]], "filters": {"refuse_seconds": -3}})
    make("accept unknown offer", "ACCEPT", nope | {"operations": [launch]})
    make("accept no offers", "ACCEPT", {"offer_ids": [], "operations": []})
    make("decline unknown", "DECLINE", nope)
    make("decline none", "DECLINE", None)
    make("revive bad role", "REVIVE", {"roles": ["a//b"]})
    make("suppress other", "SUPPRESS", {"roles": ["zz"]})
    make("reconcile none", "RECONCILE", {})
    make("kill unknown agent", "KILL", {"task_id": {"value": "u4"}, "agent_id": {"value": "nope"}})
    make("kill none", "KILL", None)
    about = {"task_id": {"value": "x"}, "agent_id": {"value": "q"}}
    make("ack bad", "ACKNOWLEDGE", about | {"uuid": "AAAA"})
    make("shutdown", "SHUTDOWN", {"executor_id": {"value": "e"}, "agent_id": {"value": "q"}})
    make("request", "REQUEST", {"requests": []})
    make("request none", "REQUEST", None)
    own: Json = {"id": {"value": probe.scheduler.framework_id}, "user": "root", "name": "live2"}
    own |= {"roles": ["r", "s", "t"], "failover_timeout": 0.0}
    own |= {"capabilities": [{"type": "MULTI_ROLE"}, {"type": "PARTITION_AWARE"}]}
    for label, value in {"user": "nobody", "checkpoint": True, "principal": "x"}.items():
        make(f"update_framework {label}", "UPDATE_FRAMEWORK", {"framework_info": own | {label: value}})
    nameless = {name: value for name, value in own.items() if name != "id"}
    make("update no id", "UPDATE_FRAMEWORK", {"framework_info": nameless})
    make("update bad role", "UPDATE_FRAMEWORK", {"framework_info": own | {"roles": ["a//b"]}})
    probe.scheduler.stream_id, right = "bogus", probe.scheduler.stream_id
    head = {"Mesos-Stream-Id": "bogus"}
    call = {"type": "REVIVE", "framework_id": own["id"]}
    status, text = probe.mesos.request("POST", SCHEDULER, call, **head)
    probe.ours["wrong stream id"] = [[status, told(text)], []]
    probe.scheduler.stream_id = right


def test_calls(mesos: Mesos, real: dict[str, Any]) -> None:
    """A live framework's calls, and their outcomes."""
    capabilities = [{"type": "MULTI_ROLE"}, {"type": "PARTITION_AWARE"}]
    info = framework_info("live", roles=["r", "s"], capabilities=capabilities)
    with Subscription(mesos, info) as scheduler:
        probe = Probe(mesos, scheduler, real)
        launch_all(probe)
        call_all(probe)
        assert_alike(real, probe.ours, 40)


# ---- operators -----------------------------------------------------------------------------------------


def test_operators(mesos: Mesos, real: dict[str, Any]) -> None:
    """Operators' requests, by the keys of the answers, when no framework is there."""
    until(lambda: mesos.get("/state")["frameworks"] == [], "the last framework is removed")
    ours: dict[str, Any] = {}
    for label in (label for label in real if label.startswith("GET /") and SCHEDULER not in label):
        status, answer = mesos.request("GET", label.removeprefix("GET "))
        if isinstance(answer, str) and answer.strip().isdigit():
            answer = int(answer)  # as the recording took it
        keys = isinstance(answer, dict) and label != "GET /metrics/snapshot"
        text = "keys:" + ",".join(sorted(answer)) if keys else type(answer).__name__
        ours[label] = [status, told(answer)[:120] if isinstance(answer, str) else told(text)]
    for label in (label for label in real if label.startswith("OP ")):
        kind = label.removeprefix("OP ")
        status, answer = mesos.request("POST", "/api/v1", {"type": kind})
        if isinstance(answer, dict):
            inside = answer.get(kind.lower(), {})
            answer = "keys:" + ",".join([*sorted(answer), "/", *sorted(inside)])
        ours[label] = [status, told(answer)[:160]]
    assert_alike(real, ours, 35)


# ---- without the recording -----------------------------------------------------------------------------


def test_an_empty_id_is_none(mesos: Mesos) -> None:
    """A framework that sends an empty id is a new one."""
    info = framework_info(id={"value": ""})
    body = {"type": "SUBSCRIBE", "framework_id": {"value": ""}, "subscribe": {"framework_info": info}}
    assert answer_of(mesos, body) == [200, 'SUBSCRIBED ""']


def test_a_variable_without_a_value_is_an_error(mesos: Mesos) -> None:
    """The task is refused by the master, in a real one's words."""
    with Subscription(mesos, framework_info("plain")) as scheduler:
        command = {"environment": {"variables": [{"name": "A"}]}}
        scheduler.launch(scheduler.offers()[0], task("t", command_fields=command))
        status = scheduler.update("t", "TASK_ERROR")
        assert "variable 'A' of type 'VALUE' must have a value set" in status["message"]


def test_an_update_under_another_id_is_refused(mesos: Mesos) -> None:
    """An UPDATE_FRAMEWORK has to name its framework."""
    with Subscription(mesos, framework_info("updated")) as scheduler:
        told = scheduler.call("UPDATE_FRAMEWORK", {"framework_info": framework_info("updated")}, expect=400)
        assert told.endswith("'framework_id' differs from 'update_framework.framework_info.id'")


def test_an_operations_uuid_that_is_none_is_refused(mesos: Mesos) -> None:
    """An acknowledgement is for a UUID."""
    bad = {"uuid": "AAAA", "operation_id": {"value": "x"}}
    with Subscription(mesos, framework_info("acknowledging")) as scheduler:
        assert scheduler.call("ACKNOWLEDGE_OPERATION_STATUS", bad, expect=400).endswith(": Not a valid UUID")


def test_filters_that_ask_for_nothing_are_an_error(mesos: Mesos) -> None:
    """Offer filters have to name a quantity."""
    filters: Json = {"r": {"min_allocatable_resources": {"quantities": [{}]}}}
    info = framework_info(roles=["r"], capabilities=[{"type": "MULTI_ROLE"}], offer_filters=filters)
    body = {"type": "SUBSCRIBE", "subscribe": {"framework_info": info}}
    told = 'ERROR {"message": "Resource quantities must contain at least one quantity"}'
    assert answer_of(mesos, body) == [200, told]


def test_a_check_by_http_without_an_address_is_an_error(mesos: Mesos) -> None:
    """The task is refused by the master."""
    with Subscription(mesos, framework_info("checking")) as scheduler:
        scheduler.launch(scheduler.offers()[0], task("t", health_check={"type": "HTTP"}))
        assert "'http'" in scheduler.update("t", "TASK_ERROR")["message"]
