"""The shape of the messages that clients send, and the conversion of JSON into it with Mesos' own complaints.

A message is a dict with the known fields only: unknown fields and unknown enum values are dropped as a real
master drops them, numbers given as text become numbers. Whether a call makes sense is decided in `calls`.
"""

import base64
import binascii
import math
import re
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

_ANY = "any"  # a message whose fields the embedded Mesos neither reads nor checks
_END_INT = 2**63  # Mesos keeps integers in 64 bits
_SCALARS = {"string", "bytes", "double", "int", "bool"}

#: Calls of an operator of which only the form is checked.
NOT_EMBEDDED = ("LIST_FILES", "REMOVE_QUOTA", "DRAIN_AGENT", "GROW_VOLUME")

# name=type; `!` marks a required field, `*` a repeated one. Fields stand in the order of their numbers in
# Mesos' protocol files, because complaints about missing ones come in that order.
_MESSAGES = {
    "ID": "value=string!",
    "Duration": "nanoseconds=int!",
    "Filters": "refuse_seconds=double",
    "KillPolicy": "grace_period=Duration",
    "Capability": "type=Capability.Type",
    "FrameworkInfo": (
        "user=string! name=string! id=ID failover_timeout=double checkpoint=bool role=string hostname=string "
        "principal=string webui_url=string capabilities=Capability* labels=any roles=string* domain=any "
        "offer_filters=any"
    ),
    "Scalar": "value=double!",
    "Range": "begin=int! end=int!",
    "Ranges": "range=Range*",
    "Set": "item=string*",
    "AllocationInfo": "role=string",
    "Resource": (
        "name=string! type=Value.Type! scalar=Scalar ranges=Ranges set=Set role=string disk=any "
        "reservation=any revocable=any shared=any allocation_info=AllocationInfo provider_id=ID "
        "reservations=any*"
    ),
    "SecretValue": "data=bytes!",
    "SecretReference": "name=string! key=string",
    "Secret": "type=Secret.Type reference=SecretReference value=SecretValue",
    "Variable": "name=string! value=string type=Variable.Type secret=Secret",
    "Label": "key=string! value=string",
    "Labels": "labels=Label*",
    "Environment": "variables=Variable*",
    "URI": "value=string! executable=bool extract=bool cache=bool output_file=string",
    "CommandInfo": (
        "uris=URI* environment=Environment value=string user=string shell=bool arguments=string*"
    ),
    "Image": "type=Image.Type appc=any docker=any",
    "MesosInfo": "image=Image",
    "ContainerInfo": "type=ContainerInfo.Type! mesos=MesosInfo docker=any network_infos=any* volumes=any*",
    "ExecutorInfo": (
        "executor_id=ID! data=bytes resources=Resource* command=CommandInfo framework_id=ID name=string "
        "source=string container=ContainerInfo shutdown_grace_period=Duration labels=any "
        "type=ExecutorInfo.Type"
    ),
    "HttpCheck": "scheme=string port=int! path=string statuses=int*",
    "TcpCheck": "port=int!",
    "HealthCheck": (
        "http=HttpCheck delay_seconds=double interval_seconds=double timeout_seconds=double "
        "consecutive_failures=int grace_period_seconds=double command=CommandInfo type=HealthCheck.Type "
        "tcp=TcpCheck"
    ),
    "CommandCheck": "command=CommandInfo!",
    "CheckInfo": (
        "type=CheckInfo.Type command=CommandCheck http=any delay_seconds=double interval_seconds=double "
        "timeout_seconds=double tcp=any"
    ),
    "TaskInfo": (
        "name=string! task_id=ID! agent_id=ID! resources=Resource* executor=ExecutorInfo data=bytes "
        "command=CommandInfo health_check=HealthCheck container=ContainerInfo labels=Labels discovery=any "
        "kill_policy=KillPolicy check=CheckInfo max_completion_time=Duration limits=any"
    ),
    "TaskGroup": "tasks=TaskInfo*",
    "Launch": "task_infos=TaskInfo*",
    "LaunchGroup": "executor=ExecutorInfo! task_group=TaskGroup!",
    "Operation": (
        "type=Operation.Type launch=Launch reserve=any unreserve=any create=any destroy=any "
        "launch_group=LaunchGroup grow_volume=any shrink_volume=any id=ID"
    ),
    "Subscribe": "framework_info=FrameworkInfo! suppressed_roles=string* offer_constraints=any",
    "Accept": "offer_ids=ID* operations=Operation* filters=Filters",
    "Decline": "offer_ids=ID* filters=Filters",
    "AcceptInverseOffers": "inverse_offer_ids=ID* filters=Filters",
    "Roles": "roles=string* role=string",
    "Kill": "task_id=ID! agent_id=ID kill_policy=KillPolicy",
    "Shutdown": "executor_id=ID! agent_id=ID!",
    "Acknowledge": "agent_id=ID! task_id=ID! uuid=bytes!",
    "AcknowledgeOperation": "agent_id=ID resource_provider_id=ID uuid=bytes! operation_id=ID!",
    "ReconcileTask": "task_id=ID! agent_id=ID",
    "Reconcile": "tasks=ReconcileTask*",
    "ReconcileOperations": "operations=any*",
    "Message": "agent_id=ID! executor_id=ID! data=bytes!",
    "Request": "requests=any*",
    "UpdateFramework": "framework_info=FrameworkInfo! suppressed_roles=string* offer_constraints=any",
    "Call": (
        "type=Call.Type framework_id=ID subscribe=Subscribe accept=Accept decline=Decline kill=Kill "
        "shutdown=Shutdown acknowledge=Acknowledge reconcile=Reconcile message=Message request=Request "
        "accept_inverse_offers=AcceptInverseOffers decline_inverse_offers=AcceptInverseOffers revive=Roles "
        "suppress=Roles acknowledge_operation_status=AcknowledgeOperation "
        "reconcile_operations=ReconcileOperations update_framework=UpdateFramework"
    ),
    "AgentCall": "agent_id=ID!",
    "MetricsCall": "timeout=Duration",
    "FrameworkCall": "framework_id=ID!",
    "MasterCall": (
        "type=MasterCall.Type get_metrics=MetricsCall teardown=FrameworkCall mark_agent_gone=AgentCall "
        "deactivate_agent=AgentCall reactivate_agent=AgentCall "
        + " ".join(f"{name.lower()}=any" for name in NOT_EMBEDDED)
    ),
}

_ENUMS = {
    "Capability.Type": (
        "REVOCABLE_RESOURCES TASK_KILLING_STATE GPU_RESOURCES SHARED_RESOURCES PARTITION_AWARE MULTI_ROLE "
        "RESERVATION_REFINEMENT REGION_AWARE"
    ),
    "Value.Type": "SCALAR RANGES SET TEXT",
    "Secret.Type": "REFERENCE VALUE",
    "Variable.Type": "VALUE SECRET",
    "ContainerInfo.Type": "DOCKER MESOS",
    "Image.Type": "APPC DOCKER",
    "ExecutorInfo.Type": "DEFAULT CUSTOM",
    "HealthCheck.Type": "COMMAND HTTP TCP",
    "CheckInfo.Type": "COMMAND HTTP TCP",
    "Operation.Type": (
        "LAUNCH LAUNCH_GROUP RESERVE UNRESERVE CREATE DESTROY GROW_VOLUME SHRINK_VOLUME CREATE_DISK "
        "DESTROY_DISK"
    ),
    "Call.Type": (
        "UNKNOWN SUBSCRIBE TEARDOWN ACCEPT DECLINE ACCEPT_INVERSE_OFFERS DECLINE_INVERSE_OFFERS REVIVE KILL "
        "SHUTDOWN ACKNOWLEDGE ACKNOWLEDGE_OPERATION_STATUS RECONCILE RECONCILE_OPERATIONS MESSAGE REQUEST "
        "SUPPRESS "
        "UPDATE_FRAMEWORK"
    ),
    "MasterCall.Type": (
        "GET_HEALTH GET_FLAGS GET_VERSION GET_METRICS GET_LOGGING_LEVEL GET_STATE GET_AGENTS GET_FRAMEWORKS "
        "GET_EXECUTORS GET_OPERATIONS GET_TASKS GET_ROLES GET_WEIGHTS GET_MASTER GET_MAINTENANCE_STATUS "
        "GET_MAINTENANCE_SCHEDULE GET_QUOTA SUBSCRIBE TEARDOWN MARK_AGENT_GONE DEACTIVATE_AGENT "
        "REACTIVATE_AGENT " + " ".join(NOT_EMBEDDED)
    ),
}


class SchemaError(ValueError):
    """JSON that does not convert into the message; its text is the master's complaint."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    type: str
    required: bool
    repeated: bool


def _field(text: str) -> _Field:
    name, kind = text.split("=")
    return _Field(name, kind.rstrip("!*"), kind.endswith("!"), kind.endswith("*"))


_FIELDS = {name: {f.name: f for f in map(_field, text.split())} for name, text in _MESSAGES.items()}
_VALUES = {name: frozenset(text.split()) for name, text in _ENUMS.items()}
_DROP = object()


def convert(message: str, value: object) -> Json:
    """`value` (parsed JSON) as the named message; SchemaError as a master would complain."""
    if not isinstance(value, dict):
        raise SchemaError("Expecting a JSON object")
    result = _message(message, value)
    missing = _missing(message, result, "")
    if missing:
        raise SchemaError("Missing required fields: " + ", ".join(missing))
    return result


def _message(message: str, value: Json) -> Json:
    fields = _FIELDS[message]
    result: Json = {}
    for name, item in value.items():
        field = fields.get(name)
        if field is None or item is None:
            continue
        converted = _repeated(field, item) if field.repeated else _single(field, item)
        if converted is not _DROP:
            result[name] = converted
    return result


def _repeated(field: _Field, item: object) -> list[Any]:
    values = [_single(field, entry) for entry in (item if isinstance(item, list) else [item])]
    return [value for value in values if value is not _DROP]


def _single(field: _Field, item: object) -> Any:
    if field.type == _ANY:
        return item
    if isinstance(item, bool):
        return _expect(field, item, "boolean", {"bool"})
    if isinstance(item, int | float):
        return _number(field, item)
    if isinstance(item, str):
        return _text(field, item)
    if isinstance(item, dict):
        return _message(field.type, _expect(field, item, "object", _FIELDS.keys()))
    return _expect(field, item, "array", set())


def _expect(field: _Field, item: Any, kind: str, types: Any) -> Any:
    if field.type not in types:
        raise SchemaError(f"Not expecting a JSON {kind} for field '{field.name}'")
    return item


def _number(field: _Field, item: float) -> float:
    _expect(field, item, "number", {"double", "int"})
    if not math.isfinite(item) or (field.type == "int" and abs(item) >= _END_INT):
        raise SchemaError(f"Number out of range for field '{field.name}'")
    return float(item) if field.type == "double" else int(item)


def _text(field: _Field, item: str) -> Any:
    if field.type in _VALUES:
        return item if item in _VALUES[field.type] else _DROP
    _expect(field, item, "string", _SCALARS - {"bool"})
    if field.type == "bytes":
        return _checked_base64(field, item)
    if field.type == "string":
        return item
    try:
        return _number(field, float(item) if field.type == "double" else int(item))
    except (ValueError, OverflowError):
        about = f"Failed to parse '{item}' as a JSON number for field '{field.name}'"
        raise SchemaError(f"{about}: syntax error at line 1 near: {item}") from None


def _checked_base64(field: _Field, item: str) -> str:
    bad = re.search(r"[^A-Za-z0-9+/=\s]", item)
    if bad:
        reason = f"Invalid character '{bad.group()}'"
        raise SchemaError(f"Failed to base64 decode bytes field '{field.name}': {reason}")
    try:
        base64.b64decode(item)
    except binascii.Error as error:
        raise SchemaError(f"Failed to base64 decode bytes field '{field.name}': {error}") from None
    return item


def _missing(message: str, value: Json, prefix: str) -> list[str]:
    fields = _FIELDS[message].values()
    result = [prefix + field.name for field in fields if field.required and field.name not in value]
    for field in fields:
        if field.type in _FIELDS and field.name in value:
            entries = value[field.name] if field.repeated else [value[field.name]]
            for index, entry in enumerate(entries):
                place = f"{prefix}{field.name}[{index}]." if field.repeated else f"{prefix}{field.name}."
                result += _missing(field.type, entry, place)
    return result
