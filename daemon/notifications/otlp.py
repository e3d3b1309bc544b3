"""Spans in OTLP: https://opentelemetry.io/docs/specs/otlp, its JSON over HTTP.

`job_trace.py` defines the spans of a job.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: Types of an attribute; None is left out.
Value = str | bool | int | float | Sequence[str] | None
#: Maximum characters of a text, texts of a list, and events of a span that are sent.
_LONGEST, _MOST_VALUES, _MOST_EVENTS = 1000, 100, 128
#: As the protocol counts them: a span within one process; one that failed.
_INTERNAL, _ERROR = 1, 2


class SpanEvent(NamedTuple):
    """An event in the course of a span: time (seconds since the epoch), name, text."""

    at: float
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a trace: from when to when, seconds since the epoch; why it failed, if it did.

    `key` tells it from others of its name.
    """

    name: str
    start: float
    end: float
    attributes: Mapping[str, Value] = field(default_factory=dict)
    error: str = ""
    events: Sequence[SpanEvent] = ()
    key: str = ""


@dataclass(frozen=True, slots=True)
class TraceSpans:
    """The spans of one trace, all below `root`. Its name determines its ids, whichever daemon sends it."""

    name: str
    root: Span
    spans: Sequence[Span]

    @property
    def id(self) -> str:
        """16 bytes, in hex."""
        return hashlib.sha256(self.name.encode("utf-8", "replace")).hexdigest()[:32]

    def span_id(self, span: Span) -> str:
        """8 bytes, in hex."""
        return hashlib.sha256(f"{self.id}/{span.name}/{span.key}".encode()).hexdigest()[:16]


def body(trace: TraceSpans, resource: Mapping[str, Value], version: str) -> bytes:
    """The request that exports a trace; `resource` describes its source, `version` is ours."""
    root = trace.span_id(trace.root)
    spans = [_span(trace, trace.root, ""), *(_span(trace, span, root) for span in trace.spans)]
    scope = {"name": "stoker", "version": version}
    of_one = {
        "resource": {"attributes": _attributes(resource)},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }
    return json.dumps({"resourceSpans": [of_one]}, separators=(",", ":")).encode()


def _span(trace: TraceSpans, span: Span, parent: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "traceId": trace.id,
        "spanId": trace.span_id(span),
        "name": span.name,
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(span.start),
        "endTimeUnixNano": _nanoseconds(max(span.start, span.end)),
        "attributes": _attributes(span.attributes),
    }
    if parent:
        told["parentSpanId"] = parent
    if span.events:
        told["events"] = [
            {
                "timeUnixNano": _nanoseconds(event.at),
                "name": event.name,
                "attributes": _attributes({"message": event.text}),
            }
            for event in span.events[:_MOST_EVENTS]
        ]
        if (more := len(span.events) - _MOST_EVENTS) > 0:
            told["droppedEventsCount"] = more
    if span.error:
        told["status"] = {"code": _ERROR, "message": span.error[:_LONGEST]}
    return told


def _nanoseconds(at: float) -> str:
    """A time, to the microsecond; 64-bit numbers are texts in this JSON."""
    return str(max(0, round(at * 1e6)) * 1000)


def _attributes(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    found = ((key, _value(value)) for key, value in values.items())
    return [{"key": key, "value": value} for key, value in found if value is not None]


def _value(value: Value) -> dict[str, Any] | None:
    match value:
        case None:
            return None
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value} if math.isfinite(value) else None
        case str():
            return {"stringValue": value[:_LONGEST]}
    return {"arrayValue": {"values": [{"stringValue": text[:_LONGEST]} for text in value[:_MOST_VALUES]]}}
