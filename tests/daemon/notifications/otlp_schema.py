"""Valid OTLP JSON, after its protocol buffers, version 1: names, kinds and required values."""

import re
from collections.abc import Callable, Mapping
from typing import Any


def check_request(request: Any) -> list[dict[str, Any]]:
    """The spans of an ExportTraceServiceRequest; AssertionError names an invalid part."""
    spans: list[dict[str, Any]] = []
    _fields(
        request, {"resourceSpans": _list(lambda each: spans.extend(_resource_spans(each)))}, "resourceSpans"
    )
    ids = [span["spanId"] for span in spans]
    assert len(ids) == len(set(ids)), "a span is there twice"
    return spans


def attributes(span: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a span, as Python has them."""
    found: dict[str, Any] = {}
    for each in span["attributes"]:
        ((kind, value),) = each["value"].items()
        if kind == "arrayValue":
            value = [text["stringValue"] for text in value["values"]]
        found[each["key"]] = int(value) if kind == "intValue" else value
    return found


def _resource_spans(each: Any) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = []
    resource = {"attributes": _attributes, "droppedAttributesCount": _number}
    _fields(
        each,
        {
            "resource": lambda found: _fields(found, resource, "attributes"),
            "scopeSpans": _list(lambda scope: spans.extend(_scope_spans(scope))),
            "schemaUrl": _text,
        },
        "resource", "scopeSpans",
    )  # fmt: skip
    assert any(attribute["key"] == "service.name" for attribute in each["resource"]["attributes"])
    return spans


def _scope_spans(each: Any) -> list[dict[str, Any]]:
    scope = {"name": _text, "version": _text, "attributes": _attributes, "droppedAttributesCount": _number}
    fields = {
        "scope": lambda found: _fields(found, scope, "name"), "spans": _list(_span), "schemaUrl": _text,
    }  # fmt: skip
    _fields(each, fields, "spans")
    assert each["spans"], "nothing is exported"
    spans: list[dict[str, Any]] = each["spans"]
    return spans


def _span(span: Any) -> None:
    fields = {
        "traceId": _hex(32), "spanId": _hex(16), "parentSpanId": _hex(16), "traceState": _text, "name": _text,
        "flags": _number, "kind": _one_of(*range(6)), "startTimeUnixNano": _nano, "endTimeUnixNano": _nano,
        "attributes": _attributes, "events": _list(_event), "links": _list(_nothing), "status": _status,
        "droppedAttributesCount": _number, "droppedEventsCount": _number, "droppedLinksCount": _number,
    }  # fmt: skip
    _fields(span, fields, "traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano")
    assert span["name"]
    assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    assert len(span.get("events", ())) <= 128


def _event(event: Any) -> None:
    fields = {
        "timeUnixNano": _nano,
        "name": _text,
        "attributes": _attributes,
        "droppedAttributesCount": _number,
    }
    _fields(event, fields, "timeUnixNano", "name")


def _status(status: Any) -> None:
    _fields(status, {"code": _one_of(0, 1, 2), "message": _text}, "code")


def _attributes(found: Any) -> None:
    _list(lambda each: _fields(each, {"key": _text, "value": _value}, "key", "value"))(found)
    keys = [each["key"] for each in found]
    assert all(keys)
    assert len(keys) == len(set(keys)), keys


def _value(value: Any) -> None:
    assert len(value) == 1, value
    kinds: dict[str, Callable[[Any], None]] = {
        "stringValue": _text, "boolValue": _bool, "intValue": _nano, "doubleValue": _double,
        "arrayValue": lambda found: _fields(found, {"values": _list(_value)}, "values"),
    }  # fmt: skip
    _fields(value, kinds)


def _fields(found: Any, known: Mapping[str, Callable[[Any], None]], *required: str) -> None:
    assert isinstance(found, dict), found
    assert set(found) <= set(known), f"{set(found) - set(known)} are no fields"
    assert set(required) <= set(found), f"{set(required) - set(found)} are missing"
    for name, value in found.items():
        known[name](value)


def _list(check: Callable[[Any], object]) -> Callable[[Any], None]:
    def each(found: Any) -> None:
        assert isinstance(found, list)
        for one in found:
            check(one)

    return each


def _hex(digits: int) -> Callable[[Any], None]:
    def check(text: Any) -> None:
        assert isinstance(text, str)
        assert re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", text), text
        assert set(text) != {"0"}, "ids of zeros are none"

    return check


def _one_of(*values: int) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        assert type(value) is int
        assert value in values

    return check


def _nano(text: Any) -> None:
    assert isinstance(text, str), "numbers of 64 bits are texts"
    assert re.fullmatch(r"-?[0-9]{1,19}", text)


def _text(text: Any) -> None:
    assert isinstance(text, str)


def _bool(value: Any) -> None:
    assert type(value) is bool


def _double(value: Any) -> None:
    assert type(value) in (int, float)


def _number(value: Any) -> None:
    assert type(value) is int


def _nothing(_: Any) -> None:
    raise AssertionError("there are none")
