"""The API is what docs/openapi.json says, and says of everything in it what it is."""

import ast
import json
from collections.abc import Iterator
from typing import Any

from tests.daemon import client_types
from tests.daemon.openapi import STORED, described


def nameless(found: dict[str, Any]) -> Iterator[str]:
    """Whatever is not described: operations, parameters, bodies and their fields."""
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            if not operation.get("description"):
                yield f"{method} {path}"
            for parameter in operation.get("parameters", ()):
                if not parameter.get("description"):
                    yield f"{method} {path}: {parameter['name']}"
    for name, schema in found["components"]["schemas"].items():
        if not schema.get("description"):
            yield name
        for field, what in schema["properties"].items():
            if not what.get("description"):
                yield f"{name}.{field}"


def test_everything_is_described() -> None:
    """Mend it by a text below the field, in the class of that name."""
    assert not list(nameless(described()))


def test_what_is_not_described_is_found() -> None:
    """An operation, a parameter, a body, a field."""
    found = described()
    found["paths"]["/v1/jobs"]["get"]["parameters"][0].pop("description")
    found["paths"]["/healthz"]["get"].pop("description")
    found["components"]["schemas"]["JobBody"].pop("description")
    found["components"]["schemas"]["JobBody"]["properties"]["cost"].pop("description")
    assert set(nameless(found)) == {"get /v1/jobs: state", "get /healthz", "JobBody", "JobBody.cost"}


def test_the_stored_description_is_the_apis() -> None:
    """What users see of the API never changes unseen."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    assert stored == described(), "the API has changed: `make openapi` stores what it is now"


def test_the_client_knows_it() -> None:
    """`make openapi` makes the client's types of it."""
    stored = client_types.STORED.read_text(encoding="utf-8")
    assert ast.dump(ast.parse(stored)) == ast.dump(ast.parse(client_types.client_types(described())))
