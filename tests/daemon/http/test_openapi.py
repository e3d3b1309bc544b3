"""The API equals docs/openapi.json, and every part of it has a description."""

import ast
import json
from collections.abc import Iterator
from typing import Any

from tests.daemon import client_types
from tests.daemon.openapi import STORED, described


def nameless(found: dict[str, Any]) -> Iterator[str]:
    """Parts without a description: operations, parameters, bodies and their fields."""
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


#: What JSON schema has for numbers; others are Python's.
_UNKNOWN = {"ge", "gt", "le", "lt"}


def ungenerated(found: dict[str, Any]) -> Iterator[str]:
    """Parts that a client generator would have to guess or leave out."""
    schemas = found["components"]["schemas"]
    for name, schema in schemas.items():
        if not name.isidentifier() or schema.get("title") != name:
            yield f"{name}: is not called so, by one word"
    for where, value in _objects(found, ""):
        if (reference := value.get("$ref")) and reference.rpartition("/")[2] not in schemas:
            yield f"{where}: leads nowhere"
        if any("anyOf" in member for member in value.get("anyOf", ())):
            yield f"{where}: a union in a union"
        if {"anyOf", "oneOf"} & value.keys() and not value.get("title"):
            yield f"{where}: a union without a name"
        if _UNKNOWN & value.keys() and not where.endswith("properties"):
            yield f"{where}: is no JSON schema"


def _objects(value: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield where, value
        for key, each in value.items():
            yield from _objects(each, f"{where}/{key}")
    elif isinstance(value, list):
        for each in value:
            yield from _objects(each, where)


def test_generators_of_clients_take_all_of_it() -> None:
    """Names that are unique and one word, unions flat and named, no word that JSON schema does not have."""
    assert not list(ungenerated(described()))


def test_what_generators_stumble_over_is_found() -> None:
    """Of each kind."""
    found = described()
    schemas = found["components"]["schemas"]
    schemas["JobSpecInput"]["title"] = "JobSpec"
    fields = schemas["JobSpecInput"]["properties"]
    fields["memory"].pop("title")
    fields["deadline"]["anyOf"][0] = {"anyOf": [{"type": "integer"}], "title": "Inner"}
    fields["array"] = {"$ref": "#/components/schemas/Nothing"}
    schemas["Retry"]["properties"]["most"]["gt"] = 0
    assert [each.rpartition("/")[2] for each in ungenerated(found)] == [
        "JobSpecInput: is not called so, by one word",
        "deadline: a union in a union",
        "memory: a union without a name",
        "array: leads nowhere",
        "most: is no JSON schema",
    ]


def test_each_operation_says_what_it_wants_to_be_shown() -> None:
    """A token or a session's cookie; nothing where a probe asks, or has a key; and where to ask."""
    found = described()
    assert found["servers"][0]["url"] == "/"
    schemes = found["components"]["securitySchemes"]
    assert {name: (one["type"], one.get("in")) for name, one in schemes.items()} == {
        "token": ("http", None),
        "session": ("apiKey", "cookie"),
    }
    paths: Any = found["paths"]
    shown: list[dict[str, list[str]]] = [{"token": []}, {"session": []}]
    assert paths["/v1/jobs"]["post"]["security"] == shown
    assert paths["/metrics"]["get"]["security"] == shown
    assert paths["/healthz"]["get"]["security"] == []
    assert paths["/v1/session"]["post"]["security"] == []
    assert paths["/v1/submissions/status/{submission_id}"]["get"]["security"] == [{}, *shown]


def test_the_stored_description_is_the_apis() -> None:
    """The stored description equals the API's, so no public change goes unnoticed."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    assert stored == described(), "the API has changed: `make openapi` stores what it is now"


def test_the_client_knows_it() -> None:
    """`make openapi` makes the client's types of it."""
    stored = client_types.STORED.read_text(encoding="utf-8")
    assert ast.dump(ast.parse(stored)) == ast.dump(ast.parse(client_types.client_types(described())))
