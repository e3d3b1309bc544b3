"""Calls of the v1 scheduler API as frozen values: parsed, validated, refused in a master's own words.

The master executes calls; the HTTP server receives them.
"""

import base64
import json
import math
import re
import uuid
from dataclasses import dataclass, field

from framework.embedded.message_schema import NOT_EMBEDDED, Json, SchemaError, convert

_BODY_OPTIONAL = frozenset({"TEARDOWN", "REVIVE", "SUPPRESS", "UNKNOWN"})
_OPERATOR_BODY_REQUIRED = frozenset(
    {"TEARDOWN", "MARK_AGENT_GONE", "DEACTIVATE_AGENT", "REACTIVATE_AGENT", "GET_METRICS", *NOT_EMBEDDED}
)
_LONGEST_SECONDS = 9_223_372_036.0  # Mesos keeps durations as 64-bit nanoseconds


class CallError(ValueError):
    """A body that is no valid call; its text goes into the 400 answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """One valid call; `body` is the message named after the type, empty where the type needs none."""

    type: str
    framework_id: str | None
    body: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FrameworkInfo:
    """A framework's description of itself; the roles are those that take effect."""

    message: Json
    user: str
    name: str
    roles: tuple[str, ...]
    capabilities: frozenset[str]
    failover_timeout: float
    checkpoint: bool
    principal: str | None


def parse_json(body: bytes) -> object:
    """The parsed body; CallError with the master's text when it is no JSON."""
    try:
        return json.loads(body, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        rest = error.doc[error.pos :].split("\n", 1)[0]
        near = "".join(character for character in rest if character >= " ")
        text = f"syntax error at line {error.lineno} near: {near}"
        raise CallError(f"Failed to parse body into JSON: {text}") from None
    except RecursionError:
        raise CallError("Failed to parse body into JSON: nested too deeply") from None
    except ValueError:  # bytes that are no text, or a number of thousands of digits
        raise CallError("Failed to parse body into JSON: syntax error at line 1 near: ") from None


def _no_constant(text: str) -> object:
    raise CallError(f"Failed to parse body into JSON: syntax error at line 1 near: {text}")


def parse_call(body: bytes, principal: str | None = None) -> Call:
    """The scheduler call in a request's body; CallError when a master would answer 400.

    `principal` is the one that the request was authenticated as.
    """
    try:
        message = convert("Call", parse_json(body))
    except SchemaError as error:
        raise CallError(f"Failed to convert JSON into Call protobuf: {error}") from None
    reason = _invalid(message, principal)
    if reason:
        raise CallError(f"Failed to validate scheduler::Call: {reason}")
    kind = message["type"]
    # An empty id is that of a framework which has none yet.
    framework_id = message.get("framework_id", {}).get("value") or None
    return Call(kind, framework_id, message.get(kind.lower(), {}))


def parse_operator_call(body: bytes) -> tuple[str, Json]:
    """Type and message of an operator call; CallError when a master would answer 400."""
    try:
        message = convert("MasterCall", parse_json(body))
    except SchemaError as error:
        raise CallError(f"Failed to convert JSON into Call protobuf: {error}") from None
    kind = message.get("type")
    if kind is None:
        raise CallError("Failed to validate master::Call: Expecting 'type' to be present")
    name = kind.lower()
    if kind in _OPERATOR_BODY_REQUIRED:
        if name not in message:
            raise CallError(f"Failed to validate master::Call: Expecting '{name}' to be present")
        return kind, message[name]
    return kind, {}


def framework_info(message: Json) -> FrameworkInfo:
    """The typed form of a valid `FrameworkInfo` message."""
    capabilities = frozenset(entry["type"] for entry in message.get("capabilities", []) if "type" in entry)
    roles = message.get("roles", []) if "MULTI_ROLE" in capabilities else [message.get("role", "*")]
    return FrameworkInfo(
        message=message,
        user=message["user"],
        name=message["name"],
        roles=tuple(roles),
        capabilities=capabilities,
        failover_timeout=message.get("failover_timeout", 0.0),
        checkpoint=message.get("checkpoint", False),
        principal=message.get("principal"),
    )


def framework_problem(message: Json) -> str | None:
    """A master's ERROR message for such a `FrameworkInfo`, or None when it is valid."""
    multi_role = any(entry.get("type") == "MULTI_ROLE" for entry in message.get("capabilities", []))
    if multi_role and "role" in message:
        return "'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable"
    if not multi_role and message.get("roles"):
        return "'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable"
    roles = message.get("roles", [])
    duplicates = sorted({role for role in roles if roles.count(role) > 1})
    if duplicates:
        return f"'FrameworkInfo.roles' contains duplicate items: {{ {', '.join(duplicates)} }}"
    field_name = "roles" if multi_role else "role"
    for role in roles if multi_role else [message.get("role", "*")]:
        problem = _role_problem(role)
        if problem:
            return f"'FrameworkInfo.{field_name}' contains invalid role: {problem}"
    if _has_empty_quantities(message.get("offer_filters")):
        return "Resource quantities must contain at least one quantity"
    timeout = message.get("failover_timeout", 0.0)
    if not math.isfinite(timeout) or timeout > _LONGEST_SECONDS:
        return f"The framework failover_timeout ({timeout:g}) is invalid"
    return None


def _has_empty_quantities(filters: object) -> bool:
    """Whether offer filters, which are ignored otherwise, request an empty amount for some role."""
    for each in filters.values() if isinstance(filters, dict) else ():
        least = each.get("min_allocatable_resources") if isinstance(each, dict) else None
        entries = least.get("quantities") if isinstance(least, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and not entry.get("quantities"):
                return True
    return False


def _role_problem(role: str) -> str | None:
    if role == "*":
        return None
    if not role:
        return "Role names cannot be the empty string"
    if role.startswith("/"):
        return f"Role '{role}' cannot start with a slash"
    if role.endswith("/"):
        return f"Role '{role}' cannot end with a slash"
    if "//" in role:
        return f"Role '{role}' cannot contain two adjacent slashes"
    for part in role.split("/"):
        if part in {".", "..", "*"}:
            return f"Role '{role}' cannot include '{part}' as a component"
        problem = _component_problem(part)
        if problem:
            return problem
    return None


def _component_problem(part: str) -> str | None:
    if part.startswith("-"):
        return f"Role component '{part}' is invalid because it starts with a dash"
    if re.search(r"[\s\b]", part):
        return f"Role component '{part}' is invalid because it contains backspace or whitespace"
    return None


def _invalid(message: Json, principal: str | None) -> str | None:
    kind = message.get("type")
    if kind is None:
        return "Expecting 'type' to be present"
    name = kind.lower()
    if kind == "SUBSCRIBE":
        return _invalid_subscribe(message, principal)
    if "framework_id" not in message:
        return "Expecting 'framework_id' to be present"
    if name not in message and kind not in _BODY_OPTIONAL:
        return f"Expecting '{name}' to be present"
    if kind.startswith("ACKNOWLEDGE") and not _is_uuid(message[name]["uuid"]):
        return "Not a valid UUID"
    if kind == "UPDATE_FRAMEWORK":
        own = message[name]["framework_info"].get("id", {}).get("value", "")
        if own != message["framework_id"]["value"]:
            return "'framework_id' differs from 'update_framework.framework_info.id'"
    return None


def _invalid_subscribe(message: Json, principal: str | None) -> str | None:
    if "subscribe" not in message:
        return "Expecting 'subscribe' to be present"
    info = message["subscribe"]["framework_info"]
    if info.get("id", {}).get("value", "") != message.get("framework_id", {}).get("value", ""):
        return "'framework_id' differs from 'subscribe.framework_info.id'"
    told = info.get("principal")
    if principal is not None and told is not None and told != principal:
        return (
            f"Authenticated principal '{principal}' does not match principal '{told}' set in `FrameworkInfo`"
        )
    return None


def _is_uuid(text: str) -> bool:
    raw = base64.b64decode(text)
    return len(raw) == 16 and uuid.UUID(bytes=raw).version in {1, 2, 3, 4, 5}
