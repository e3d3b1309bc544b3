"""The API's description in /openapi.json, shaped so that client generators accept all of it.

Every schema has a unique name of one word, a union is a named schema at the top level, and each operation
states its credentials (a token, a session's cookie, or none).
"""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from daemon.auth.route_roles import TABLE, Rule
from daemon.auth.sessions import COOKIE
from daemon.http.server.problem_details import MEDIA_TYPE, Problem

_REFERENCE = "#/components/schemas/"
#: Keys to which pydantic gives their names in Python, where a number is made of something else.
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "The token of the daemon, or of one of its users: Authorization: Bearer TOKEN.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "The answer of POST /v1/session to a token, for browsers. Requests that change "
        "something also need the header Origin.",
    },
}
_SHOWN: list[dict[str, list[str]]] = [{"token": []}, {"session": []}]


def describe(app: FastAPI, *, with_token: bool) -> None:
    """Make the app's OpenAPI description tell of problems, and of tokens when one is needed."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app, with_token)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to change the description


def _described(app: FastAPI, with_token: bool) -> dict[str, Any]:
    found = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    found["servers"] = [{"url": "/", "description": "The daemon that this is read from"}]
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    told = Problem.model_json_schema(ref_template=_REFERENCE + "{model}")
    schemas.update(told.pop("$defs"), Problem=told)
    content = {MEDIA_TYPE: {"schema": {"$ref": f"{_REFERENCE}Problem"}}}
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)
            operation["responses"].setdefault("default", {"description": "Error", "content": content})
            operation["tags"] = [_tag(path)]
            if with_token:
                operation["security"] = _wanted(TABLE[_as_routed(method, path)])
    if with_token:
        found["components"]["securitySchemes"] = _SCHEMES
        found["security"] = _SHOWN
    found["components"]["schemas"] = {
        _word(name): {**each, "title": _word(name)} for name, each in schemas.items()
    }
    described: dict[str, Any] = _tidied(found, "")
    return described


def _as_routed(method: str, path: str) -> tuple[str, str]:
    """The key of the table of permissions: the description has no converters in its paths."""
    return next(
        (verb, route)
        for verb, route in TABLE
        if verb == method.upper() and route.replace(":path}", "}") == path
    )


def _wanted(rule: Rule) -> list[dict[str, list[str]]]:
    """Credentials of a request, one of these; an empty one stands for none in the headers."""
    if rule.entry == "person":
        return _SHOWN
    return [{}, *_SHOWN] if rule.entry == "by_id" else []


def _tag(path: str) -> str:
    """The subject of the operation: jobs for /v1/jobs/..."""
    steps = path.strip("/").split("/")
    return steps[1] if len(steps) > 1 else "operations"


def _word(name: str) -> str:
    """Schema name of one word: plain for answers, with Input for requests that differ from the answer."""
    return name.removesuffix("-Output").replace("-", "")


def _tidied(value: Any, called: str) -> Any:
    """Part of the description with flat unions with names, bounds as JSON schema has them, one-word names."""
    if isinstance(value, list):
        return [_tidied(each, called) for each in value]
    if not isinstance(value, Mapping):
        return value
    called = str(value.get("title", called)) if "properties" not in value else str(value.get("title", ""))
    found: dict[str, Any] = {}
    for key, each in value.items():
        if key == "$ref":
            found[key] = _REFERENCE + _word(str(each).removeprefix(_REFERENCE))
        elif key in ("default", "example", "examples", "enum", "const", "required"):
            found[key] = each
        elif key == "items":
            found[key] = _tidied(each, f"{called} Item")
        elif key == "properties":  # names of fields, which may be called as our keys are
            found[key] = {name: _tidied(field, name) for name, field in each.items()}
        else:
            found[_BOUNDS.get(str(key), str(key))] = _tidied(each, called)
    if "oneOf" in found:
        found.setdefault("title", called)
    if "anyOf" in found:
        flat = [each for member in found["anyOf"] for each in member.get("anyOf", [member])]
        found |= {"anyOf": flat, "title": found.get("title") or called}
        inner = [member for member in value["anyOf"] if "anyOf" in member]
        if inner and "description" in inner[0]:
            found.setdefault("description", inner[0]["description"])
    return found
