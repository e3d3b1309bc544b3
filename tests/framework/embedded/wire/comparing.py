"""Recorded and present messages made comparable: ids translated, times, ports and paths made neutral."""

import re
from typing import Any

Json = Any

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-[OS]?\d+)?")
_FOLDER = re.compile(r"'/[^']*/runs/[^']*'")
_PORTS = {
    "31000-34002": "31000-32000",  # of all three agents together
    "32001-33001": "31000-32000",
    "33002-34002": "31000-32000",
}
_NEUTRAL = {
    "timestamp",
    "uuid",
    "executor_pid",
    "port",
    "heartbeat_interval_seconds",
    "nanoseconds",
    "status_update_uuid",
    "pid",
    "build_date",
    "build_time",
    "build_user",
    "git_sha",
    "start_time",
    "elected_time",
    "registered_time",
    "reregistered_time",
    "unregistered_time",
    "failover_timeout",
}
"""Fields of which only the presence is compared."""


def translate(value: Json, known: dict[str, str]) -> Json:
    """A recorded value with its ids replaced by the present ones."""
    if isinstance(value, dict):
        return {key: translate(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [translate(item, known) for item in value]
    if isinstance(value, str):
        return known.get(value) or _ID.sub(lambda found: known.get(found.group(), found.group()), value)
    return value


def neutral(value: Json, known_ids: set[str], key: str = "") -> Json:
    """The value without differences between any two runs; unknown ids become `~`."""
    if key in _NEUTRAL:
        return f"<{key}>"
    if key == "container_status":
        return _container(value)
    if isinstance(value, dict):
        if {"begin", "end"} == set(value):
            text = f"{value['begin']}-{value['end']}"
            return _PORTS.get(text, text)
        return {name: neutral(item, known_ids, name) for name, item in value.items()}
    if isinstance(value, list):
        return [neutral(item, known_ids) for item in value]
    if isinstance(value, str):
        return _neutral_text(value, known_ids)
    return value


def differences(
    expected: Json, got: Json, path: str = "", ignored: frozenset[str] = frozenset()
) -> list[str]:
    """Where two neutral values differ; lists of objects are compared by their names."""
    if path.rpartition(".")[2] in ignored:
        return []
    if isinstance(expected, dict) and isinstance(got, dict):
        result = [f"{path}.{name} is missing" for name in expected.keys() - got.keys() - ignored]
        result += [f"{path}.{name} is new: {got[name]!r}" for name in got.keys() - expected.keys() - ignored]
        for name in expected.keys() & got.keys():
            result += differences(expected[name], got[name], f"{path}.{name}", ignored)
        return result
    if isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            return [f"{path} has {len(got)} entries instead of {len(expected)}: {got!r}"]
        pairs = zip(sorted(expected, key=_name), sorted(got, key=_name), strict=True)
        return [text for i, (a, b) in enumerate(pairs) for text in differences(a, b, f"{path}[{i}]", ignored)]
    return [] if expected == got else [f"{path} is {got!r} instead of {expected!r}"]


def _neutral_text(text: str, known_ids: set[str]) -> str:
    text = _FOLDER.sub("'<folder>'", text)
    text = _ID.sub(lambda found: found.group() if found.group() in known_ids else "~", text)
    for ours, recorded in _PORTS.items():
        text = text.replace(ours, recorded)
    return re.sub(r":\d{4,5}\b", ":<port>", text)


def _container(status: Json) -> Json:
    """Comparable parts of a container: whether it is nested, and where its addresses are."""
    if "parent" in status.get("container_id", {}):
        return {"nested": True}  # which further fields it has is a matter of chance in a real agent
    return {"nested": False, "network_infos": status.get("network_infos"), "pid": "executor_pid" in status}


def _name(entry: Json) -> str:
    """Sort key of list entries."""
    if not isinstance(entry, dict):
        return str(entry)
    inner = entry.get("agent_info") or entry.get("framework_info") or entry
    for key in ("hostname", "name", "task_id", "state", "type"):
        if key in inner:
            return str(inner[key])
    return str(entry)
