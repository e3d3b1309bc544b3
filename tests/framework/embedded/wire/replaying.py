"""Replays a recorded session with a real master against an embedded one, and notes every difference.

The client's messages are sent again, in the recorded order and, scaled, at the recorded pace; the master's
messages are awaited. Times in calls and commands are scaled too. Updates of one task must come in the
recorded order; which of several tasks comes first, and where one run of the allocator ends, is chance in a
real cluster and is not compared.
"""

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.framework.embedded.running import Mesos
from tests.framework.embedded.wire.comparing import differences, neutral, translate
from tests.waiting import PATIENCE

Json = Any

LONGEST_GAP = 8.0
"""Recorded silences longer than this are cut."""

GRACE = 4.0
"""The factor by which a task gets longer to end after SIGTERM than was recorded.

On a busy machine a shell takes half a second to start, and its task would be killed instead.
"""

_NANOS = {"max_completion_time"}
_SECONDS = {
    "refuse_seconds",
    "failover_timeout",
    "delay_seconds",
    "interval_seconds",
    "timeout_seconds",
    "grace_period_seconds",
}


class Stream:
    """One event stream; events are kept until they are matched."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.events: list[Json] = []
        self.ended: str | None = None
        self.marks: dict[str, int] = {}
        """By task: position of its last matched update."""
        self.taken: set[int] = set()
        self.answer = answer
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while size := self._line():
                self._keep(json.loads(self.answer.read(int(size))))
            self.ended = "EOFError"
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            self.ended = "IncompleteRead"

    def _line(self) -> bytes:
        """The next line, empty at a proper end; readline() would take a cut for one."""
        line = b""
        while not line.endswith(b"\n") and (byte := self.answer.read(1)):
            line += byte
        return line

    def _keep(self, event: Json) -> None:
        if event["type"] == "OFFERS":
            self.events += [{"type": "OFFER", "offer": offer} for offer in event["offers"]["offers"]]
        else:
            self.events.append(event)

    def join(self) -> None:
        """Wait until the reader has ended."""
        self._reader.join(PATIENCE)
        self.answer.close()


class Replay:
    """One replay; `problems` is empty when the embedded master answered alike."""

    def __init__(
        self,
        mesos: Mesos,
        steps: list[Json],
        *,
        scale: float,
        on_note: Callable[["Replay", str], None] = lambda _replay, _note: None,
        rewrite: Callable[[str], str] = lambda text: text,
        loose_offers: bool = False,
        known: dict[str, str] | None = None,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        self.mesos = mesos
        self.problems: list[str] = []
        self.known: dict[str, str] = dict(known or {})
        """Present ids by recorded ones."""
        self.parts: dict[str, list[str]] = {}
        """Recorded offers that came in several parts."""
        self.early: dict[tuple[str, str], tuple[str, dict[str, float]]] = {}
        """Id of the last offer of a host that had more than was recorded, and how much more, by stream."""
        self.streams: dict[str, Stream] = {}
        self._steps = steps
        self._scale = scale
        self._on_note = on_note
        self._rewrite = rewrite
        self._loose = loose_offers
        self._ignored = ignored  # names of fields in answers
        self._connections: dict[str, http.client.HTTPConnection] = {}
        self._answers: dict[str, Json] = {}
        self._expected: list[tuple[str, Json]] = []
        self._raw = b""

    def run(self) -> None:
        """Replay every step."""
        clock = 0.0
        try:
            for step in self._steps:
                gap = min(max(0.0, step.get("t", clock) - clock), LONGEST_GAP)
                clock = max(clock, step.get("t", clock))
                if "send" in step or "note" in step:
                    time.sleep(gap * self._scale)
                self._step(step)
            self.settle()
            self._check_leftovers()
        finally:
            for label in list(self._connections):
                self.drop(label)

    def drop(self, label: str) -> None:
        """Close a stream's connection from the client's side."""
        connection = self._connections.pop(label)
        stream = self.streams.get(label)
        if stream is not None:
            with contextlib.suppress(OSError, AttributeError):
                stream.answer.fp.raw._sock.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]  # private
            stream.join()
            stream.ended = "IncompleteRead"
        connection.close()

    def settle(self) -> None:
        """Wait until everything recorded so far has come."""
        deadline = time.monotonic() + PATIENCE
        loose_after = time.monotonic() + 3 * self._scale
        while self._expected:
            now = time.monotonic()
            before = len(self._expected)
            late = self._loose and now > loose_after and _only_offers(self._expected)
            self._expected = [item for item in self._expected if not self._match(*item, loose=late)]
            if len(self._expected) == before:
                if now > deadline:
                    self.problems += [f"{label}: never came: {event}" for label, event in self._expected]
                    self._expected = []
                time.sleep(0.002)

    # steps

    def _step(self, step: Json) -> None:
        label = step.get("conn", "")
        if "note" in step:
            self._on_note(self, step["note"])
        elif "event" in step:
            self._expect(label, step["event"])
        elif "send" in step:
            self.settle()
            self._send(label, step["send"])
        elif "recv" in step:
            self._compare_answer(label, step["recv"])
        elif "closed" in step:
            self.settle()
            self._check_end(label, step["closed"])

    def _expect(self, label: str, event: Json) -> None:
        if event["type"] == "OFFERS":
            self._expected += [(label, {"type": "OFFER", "offer": o}) for o in event["offers"]["offers"]]
        elif event["type"] != "HEARTBEAT" or not self._seen_heartbeat(label):
            self._expected.append((label, event))

    def _seen_heartbeat(self, label: str) -> bool:
        stream = self.streams.get(label)
        return stream is not None and any(event["type"] == "HEARTBEAT" for event in stream.events)

    def _send(self, label: str, request: Json) -> None:
        if "raw" in request:
            self._raw = self._exchange(request["raw"])
            return
        body = request.get("body")
        subscribe = isinstance(body, dict) and body.get("type") == "SUBSCRIBE"
        data = self._body(body)
        headers = {name: translate(value, self.known) for name, value in request.get("headers", {}).items()}
        connection = http.client.HTTPConnection(self.mesos.address, timeout=PATIENCE)
        try:
            connection.request(request["method"], request["path"], data, headers)
            answer = connection.getresponse()
        except OSError:
            connection.close()
            self._answers[label] = None
            return
        streaming = subscribe and answer.status == 200
        text = "" if streaming else answer.read().decode()
        self._answers[label] = (answer.status, answer.reason, dict(answer.headers), text)
        if streaming and label:
            self.streams[label] = Stream(answer)
            self._connections[label] = connection
        else:
            connection.close()

    def _body(self, body: Json) -> str | None:
        if body is None or isinstance(body, str):
            return body
        scaled = _scaled(translate(self._with_parts(body), self.known), self._scale)
        return self._rewrite(json.dumps(scaled))

    def _with_parts(self, body: Json) -> Json:
        """A call that names all parts of the offers that it uses."""
        kind = body.get("type") if isinstance(body, dict) else None
        used = body.get(kind.lower()) if isinstance(kind, str) else None
        if not isinstance(kind, str) or not isinstance(used, dict) or "offer_ids" not in used:
            return body
        told = [entry["value"] for entry in used["offer_ids"]]
        ids = [part for offer_id in told for part in self.parts.get(offer_id, [offer_id])]
        return body | {kind.lower(): used | {"offer_ids": [{"value": offer_id} for offer_id in ids]}}

    def _exchange(self, raw: str) -> bytes:
        """Send bytes and return all bytes received until there is a pause."""
        host, port = self.mesos.address.split(":")
        with socket.create_connection((host, int(port)), timeout=0.3) as connection:
            connection.sendall(raw.encode("latin-1"))
            received = b""
            with contextlib.suppress(TimeoutError):
                while data := connection.recv(65536):
                    received += data
        return received

    # comparisons

    def _match(self, label: str, recorded: Json, *, loose: bool) -> bool:
        stream = self.streams.get(label)
        if stream is None:
            return False
        if recorded["type"] == "OFFER" and self._match_sum(stream, recorded["offer"]):
            return True
        for position, event in enumerate(stream.events):
            if position not in stream.taken and self._suits(recorded, event, loose=loose):
                stream.taken.add(position)
                if loose and event["type"] == "OFFER":
                    had, want = _amounts(event["offer"]), _amounts(recorded["offer"])
                    more = {name: round(had[name] - want.get(name, 0.0), 3) for name in had}
                    self.early[label, event["offer"]["hostname"]] = event["offer"]["id"]["value"], more
                self._learn(recorded, event)
                self._compare_event(label, stream, position, recorded, event)
                return True
        return loose and self._came_early(label, recorded["offer"])

    def _match_sum(self, stream: Stream, recorded: Json) -> bool:
        """Match a recorded offer with several that together are the same: the allocator ran in between."""
        parts = {
            position: event["offer"]
            for position, event in enumerate(stream.events)
            if position not in stream.taken
            and event["type"] == "OFFER"
            and event["offer"]["hostname"] == recorded["hostname"]
        }
        if len(parts) < 2 or _amounts(recorded) != _amounts(*parts.values()):
            return False
        stream.taken |= parts.keys()
        ids = [offer["id"]["value"] for offer in parts.values()]
        self.known[recorded["id"]["value"]] = ids[0]
        self.parts[recorded["id"]["value"]] = ids
        return True

    def _came_early(self, label: str, recorded: Json) -> bool:
        """Match a recorded offer that was part of an earlier one: the allocator ran once, not twice."""
        offer_id, more = self.early.get((label, recorded["hostname"]), ("", {}))
        wanted = _amounts(recorded)
        if any(more.get(name, 0.0) < amount for name, amount in wanted.items()):
            return False
        for name, amount in wanted.items():
            more[name] = round(more[name] - amount, 3)
        self.known[recorded["id"]["value"]] = offer_id
        return True

    def _suits(self, recorded: Json, event: Json, *, loose: bool) -> bool:
        if recorded["type"] != event["type"]:
            return False
        if recorded["type"] == "UPDATE":
            want, have = recorded["update"]["status"], event["update"]["status"]
            told = self.known.get(want.get("uuid", ""))
            same = all(want.get(name) == have.get(name) for name in ("task_id", "state", "reason"))
            return same and ("uuid" in want) == ("uuid" in have) and told in {None, have.get("uuid")}
        if recorded["type"] == "OFFER":
            want, have = recorded["offer"], event["offer"]
            if want["hostname"] != have["hostname"]:
                return False
            return loose or _amounts(want) == _amounts(have)
        if recorded["type"] in {"RESCIND", "FAILURE"}:
            return bool(translate(recorded, self.known) == event)
        return True

    def _learn(self, recorded: Json, event: Json) -> None:
        if recorded["type"] == "SUBSCRIBED":
            want, have = recorded["subscribed"], event["subscribed"]
            self.known[want["framework_id"]["value"]] = have["framework_id"]["value"]
            self.known[want["master_info"]["id"]] = have["master_info"]["id"]
        elif recorded["type"] == "OFFER":
            want, have = recorded["offer"], event["offer"]
            self.known[want["id"]["value"]] = have["id"]["value"]
            self.known[want["agent_id"]["value"]] = have["agent_id"]["value"]
        elif recorded["type"] == "UPDATE" and "uuid" in recorded["update"]["status"]:
            self.known[recorded["update"]["status"]["uuid"]] = event["update"]["status"]["uuid"]

    def _compare_event(self, label: str, stream: Stream, position: int, recorded: Json, event: Json) -> None:
        if recorded["type"] == "UPDATE":
            task_id = event["update"]["status"]["task_id"]["value"]
            if position < stream.marks.get(task_id, -1):
                self.problems.append(f"{label}: out of order: {event}")
            stream.marks[task_id] = position
        ignored = frozenset({"resources", "role"} if recorded["type"] == "OFFER" else ())
        self._compare(f"{label}: {recorded['type']}", recorded, event, ignored)

    def _compare(self, where: str, recorded: Json, got: Json, ignored: frozenset[str] = frozenset()) -> None:
        ids = set(self.known.values())
        want = neutral(translate(recorded, self.known), ids)
        found = differences(want, neutral(got, ids), ignored=ignored)
        self.problems += [f"{where}{text}" for text in found]

    def _compare_answer(self, label: str, recorded: Json) -> None:
        if "raw" in recorded:
            self._compare_raw(recorded["raw"].encode("latin-1"), self._raw)
            return
        answer = self._answers.get(label)
        if answer is None:
            self.problems.append(f"{label}: no answer at all instead of {recorded['status']}")
            return
        status, reason, headers, text = answer
        where = f"{label}: answer"
        want = {"status": recorded["status"], "reason": recorded["reason"]}
        want["headers"] = _headers(recorded["headers"])
        self.known |= _stream_ids(recorded["headers"], headers)
        self._compare(where, want, {"status": status, "reason": reason, "headers": _headers(headers)})
        body = recorded.get("body")
        if isinstance(body, dict | list):
            self._compare(f"{where} body", body, json.loads(text or "null"), self._ignored)
        elif body and not text.startswith("<"):
            self._compare(f"{where} body", body, text)

    def _compare_raw(self, recorded: bytes, got: bytes) -> None:
        want, have = _raw_summary(recorded), _raw_summary(got)
        self._compare("raw answer", want, have)

    def _check_end(self, label: str, how: str) -> None:
        stream = self.streams[label]
        deadline = time.monotonic() + PATIENCE
        while stream.ended is None and time.monotonic() < deadline:
            time.sleep(0.002)
        if not how.startswith(str(stream.ended)):
            self.problems.append(f"{label}: stream ended with {stream.ended} instead of {how}")

    def _check_leftovers(self) -> None:
        for label, stream in self.streams.items():
            for position, event in enumerate(stream.events):
                more = event["type"] in {"HEARTBEAT", "OFFER"} or self._of_no_recorded_offer(event)
                tolerated = more or self._resent(event)
                if position not in stream.taken and not tolerated:
                    self.problems.append(f"{label}: not recorded: {event}")

    def _of_no_recorded_offer(self, event: Json) -> bool:
        """Whether it rescinds an offer that was not made in the recording: a busy machine makes others."""
        offer_id = event.get("rescind", {}).get("offer_id", {}).get("value")
        return event["type"] == "RESCIND" and offer_id not in self.known.values()

    def _resent(self, event: Json) -> bool:
        """Whether an update is one that was matched before."""
        status = event.get("update", {}).get("status", {})
        return "uuid" in status and status["uuid"] in self.known.values()


def _amounts(*offers: Json) -> dict[str, float]:
    """The sum of offers' scalars; each agent has ports of its own here."""
    result: dict[str, float] = {}
    for resource in (resource for offer in offers for resource in offer["resources"] if "scalar" in resource):
        name, value = resource["name"], resource["scalar"]["value"]
        result[name] = round(result.get(name, 0.0) + value, 3)
    return result


def _only_offers(expected: list[tuple[str, Json]]) -> bool:
    return all(event["type"] == "OFFER" for _, event in expected)


def _headers(headers: dict[str, str]) -> dict[str, str]:
    skipped = {"Date", "Content-Length", "Mesos-Stream-Id"}
    return {name: value for name, value in headers.items() if name not in skipped}


def _stream_ids(recorded: dict[str, str], got: dict[str, str]) -> dict[str, str]:
    name = "Mesos-Stream-Id"
    return {recorded[name]: got[name]} if name in recorded and name in got else {}


def _raw_summary(data: bytes) -> Json:
    """Status line, header names and either the text or the kinds of the events in the body."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    chunked = "Transfer-Encoding: chunked" in lines
    kinds = sorted(set(re.findall(rb'"type":"([A-Z]+)"[,}]', body))) if chunked else body
    names = [line.split(":")[0] for line in lines[1:]]
    return {"status": lines[0], "headers": names, "body": str(kinds)}


def _scaled(value: Json, scale: float, key: str = "") -> Json:
    """A call with its times scaled; a command's long sleeps stay long."""
    if isinstance(value, dict):
        if key == "grace_period" and "nanoseconds" in value:
            return {"nanoseconds": int(value["nanoseconds"] * GRACE)}
        if key in _NANOS and "nanoseconds" in value:
            return {"nanoseconds": int(value["nanoseconds"] * scale)}
        return {name: _scaled(item, scale, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_scaled(item, scale) for item in value]
    if key in _SECONDS and isinstance(value, int | float) and 0 < value < 1e6:
        return value * scale
    if isinstance(value, str) and key == "value":
        return re.sub(r"\bsleep (\d{1,2})\b", lambda m: f"sleep {int(m.group(1)) * scale:g}", value)
    return value
