"""JSON schemas as Markdown: a table of fields for each object, and descriptions of values in words."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
_WORDS = {"integer": "whole number", "string": "text", "boolean": "true or false", "null": "null"}


def cell(text: str) -> str:
    """A text that is one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """The lines of a table, and an empty one."""
    columns = list(head)
    yield f"| {' | '.join(columns)} |"
    yield f"| {' | '.join('---' for _ in columns)} |"
    for row in rows:
        yield f"| {' | '.join(map(cell, row))} |"
    yield ""


def fields(
    schema: Schema, said: Mapping[str, str] | None = None, objects: Mapping[str, Schema] | None = None
) -> Iterator[str]:
    """The table of an object's fields; `said` has texts for fields that the schema does not describe.

    A field without a text shows the text of the first of the `objects` that it may be.
    """
    required = schema.get("required", ())
    rows = [
        (
            f"`{name}`",
            what(field),
            "needed" if name in required else default(field),
            field.get("description") or (said or {}).get(name) or _of_object(field, objects or {}),
        )
        for name, field in schema.get("properties", {}).items()
    ]
    if rows:
        yield from table(("key", "value", "left out", "what it says"), rows)


def _of_object(field: Schema, objects: Mapping[str, Schema]) -> str:
    inner = [field, *field.get("anyOf", ()), *field.get("oneOf", ())]
    names = [one["$ref"].rpartition("/")[2] for one in inner if "$ref" in one]
    return str(objects.get(names[0], {}).get("description", "")) if names else ""


def default(field: Schema) -> str:
    """The field's default value."""
    if "default" not in field:
        return "-"
    value = field["default"]
    return "as below" if isinstance(value, dict) and value else f"`{json.dumps(value)}`"


def what(schema: Schema) -> str:
    """The kind of value, in words, with links to the objects that it may be."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(map(what, schema[several])))
    kind = schema.get("type")
    if kind == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(map(what, schema['prefixItems']))}]"
        return f"list of {what(schema['items'])}" if schema.get("items") else "list"
    if kind == "object":
        inner = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
        found = next((one for one in inner if isinstance(one, dict)), None)
        return f"names with {what(found)}" if found else "object"
    return _WORDS.get(str(kind), "number" if kind == "number" else "anything") + _bounds(schema)


def _bounds(schema: Schema) -> str:
    low, high = (schema.get(key) for key in ("minimum", "maximum"))
    above, below = (schema.get(key) for key in ("exclusiveMinimum", "exclusiveMaximum"))
    found = [
        *([f"{low:,.12g} to {high:,.12g}"] if low is not None and high is not None else []),
        *([f"at least {low:,.12g}"] if low is not None and high is None else []),
        *([f"at most {high:,.12g}"] if high is not None and low is None else []),
        *([f"more than {above:,.12g}"] if above is not None else []),
        *([f"less than {below:,.12g}"] if below is not None else []),
    ]
    return f", {', '.join(found)}" if found else ""
