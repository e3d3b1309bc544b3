"""docs/reference/api.md: every request and body of the HTTP API, from docs/openapi.json."""

import json
from collections.abc import Iterator
from typing import Any

from tests.daemon.openapi import STORED
from tests.docs.shapes import default, fields, table, what

HEAD = """# Reference: HTTP API

Made by `make reference` from [openapi.json](../openapi.json), which the daemon also serves at
`/openapi.json`. With a token (`token_file`, or a user's) requests carry `Authorization: Bearer TOKEN`. Errors
are answered as `application/problem+json`: [Problem](#problem). Long lists come in pages, by `limit` and
`before`.

## Requests
"""


def api_reference() -> str:
    """The page."""
    described: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8"))
    operations = [
        (method.upper(), path, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    lines = [HEAD]
    lines += table(
        ("request", "does"),
        (
            (f"[`{method} {path}`](#{_anchor(f'{method} {path}')})", _first(operation))
            for method, path, operation in operations
        ),
    )
    for method, path, operation in operations:
        lines += [f"### {method} {path}", "", *_operation(operation)]
    lines += ["## Bodies", ""]
    for name, schema in sorted(described["components"]["schemas"].items()):
        lines += [f"### {name}", ""]
        lines += [" ".join(schema["description"].split()), ""] if schema.get("description") else []
        lines += fields(schema) if schema.get("properties") else [f"{what(schema)}", ""]
    return "\n".join(lines).rstrip() + "\n"


def _anchor(title: str) -> str:
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _first(operation: dict[str, Any]) -> str:
    return str(operation.get("description") or operation.get("summary", "")).partition("\n\n")[0]


def _operation(operation: dict[str, Any]) -> Iterator[str]:
    yield str(operation.get("description", "")).strip()
    yield ""
    rows = [
        (
            f"`{one['name']}`",
            one["in"],
            what(one["schema"]),
            "needed" if one.get("required") else default(one["schema"]),
            one.get("description", ""),
        )
        for one in operation.get("parameters", ())
    ]
    if rows:
        yield from table(("parameter", "in", "value", "left out", "what it says"), rows)
    sent = operation.get("requestBody", {}).get("content", {})
    for kind, body in sent.items():
        yield f"Body, `{kind}`: {what(body['schema'])}"
        yield ""
    yield from table(
        ("answer", "with"),
        (
            (
                code if code != "default" else "else",
                ", ".join(f"{what(body.get('schema', {}))}" for body in answer.get("content", {}).values())
                or str(answer.get("description", "")),
            )
            for code, answer in operation.get("responses", {}).items()
        ),
    )
