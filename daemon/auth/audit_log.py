"""Audit log: one JSON line, with caller and answer, for each request that changes something or is refused.

Its own thread writes it, so that a stalled disk delays no request.
"""

import json
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import structlog

from conf.util.counted import counted
from conf.util.secret_masking import masked_text
from daemon.core.logging import Throttle
from daemon.disk.event_log import EventLog

#: Records that wait to be written; Chosen: a second's worth under full load, and little memory.
_MOST_WAITING = 10_000
#: Records that are written at once at most: some kilobytes.
_AT_ONCE = 32
#: Seconds for which a record waits for more, so that the thread wakes up seldom while requests are many.
_GATHERING = 0.05
#: Records a second that are kept of each caller's rejected requests, and of all of nobody known by method: a
#: flood of them must not push everything else out of the files.
_KEPT = 5.0
#: The parts of a body that describe the request; nothing else of it is stored.
_TOLD = (
    *("app", "appResource", "clientSparkVersion", "name", "type", "executors", "cpus", "memory"),
    *("owner", "queue", "priority", "role", "unix_user", "seconds"),
)
_LONGEST = 200
#: Changes of queues are logged in full, up to so many values.
_QUEUES, _MOST_TOLD = "/v1/queues/", 50
#: Where an ASGI scope holds the caller, with the id of its token, and the described parts of its body (None:
#: nothing).
WHO, BODY = "stoker.who", "stoker.body"
#: Name of a caller without a known token.
NOBODY = "nobody known"
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REFUSED, _REJECTED = frozenset({401, 403, 421}), 400
#: A file is uploaded in many parts: the log records that all of it arrived, or that it could not.
_FILES, _PART = "/v1/files/", 202
#: Requests that change nothing: the drivers' messages every few seconds, and submissions that are only tried.
_UNCHANGING = ("/heartbeat", "/dry-run")


class Audit:
    """The audit log at `path`, mode 0600; turned beyond `size` bytes, with `earlier` files kept beside it."""

    def __init__(self, path: Path, *, size: int, earlier: int) -> None:
        """Open the log; OSError when that cannot be."""
        self._journal = EventLog(path, size=size, earlier=earlier, without="they are nowhere else")
        self._waiting: queue.Queue[dict[str, Any] | None] = queue.Queue(_MOST_WAITING)
        self._dropped = 0
        self._throttle = Throttle(_KEPT)
        self._writer = threading.Thread(target=self._write, name="audit", daemon=True)
        self._writer.start()

    @property
    def trouble(self) -> str:
        """Reason why records are missing or delayed, in words; empty when all are on disk."""
        if self._journal.trouble:
            return self._journal.trouble
        return f"{counted(self._dropped, 'record')} lost: the disk did not keep up" if self._dropped else ""

    def note(self, scope: Mapping[str, Any], status: int, location: str) -> None:
        """Record a request and its answer if it belongs in the log; for the event loop only.

        `location` is the address of the created resource; the gate put the rest into the scope.
        """
        who, token = scope.get(WHO, (NOBODY, ""))
        changing = scope["method"] in _CHANGING
        refused = status in _REFUSED
        rejected = status >= _REJECTED
        part = status == _PART and scope["path"].startswith(_FILES)
        unchanging = part or scope["path"].endswith(_UNCHANGING)
        if not refused and (not changing or unchanging):
            return
        record: dict[str, Any] = {
            "at": round(time.time(), 3),
            "peer": _peer(scope),
            "who": who,
            **({"token": token} if token else {}),
            "method": scope["method"],
            "path": masked_text(scope["path"])[:_LONGEST],
            "status": status,
        }
        if rejected or who == NOBODY:
            # Nobody known may do what needs no rights, such as to end a session that is none.
            kind = f"refused {who}" if rejected else f"{scope['method']} by {who}"
            try:
                record |= self._throttle(None, "", {"event": kind})
            except structlog.DropEvent:
                return
        whole = scope["path"].startswith(_QUEUES)
        if (who != NOBODY or not refused) and (asked := _asked(scope.get(BODY), whole=whole)):
            record["asked"] = asked
        if location:
            record["made"] = location[:_LONGEST]
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def close(self, patience: float = 2.0) -> None:
        """Write the queued lines, for at most `patience` seconds."""
        try:
            self._waiting.put(None, timeout=patience)
        except queue.Full:
            return
        self._writer.join(patience)

    def _write(self) -> None:
        going = True
        while going:
            records = [self._waiting.get()]
            if self._waiting.qsize() < _AT_ONCE - 1 and records[0] is not None:
                time.sleep(_GATHERING)
            while len(records) < _AT_ONCE and not self._waiting.empty():
                records.append(self._waiting.get())
            going = None not in records
            lines = [json.dumps(record) for record in records if record is not None]
            try:
                if lines and self._journal.full:
                    self._journal.turn(lines.pop(0))
                self._journal.write(lines)
            except OSError as error:  # such as a file system that is gone
                self._journal.trouble = f"the audit log cannot be written: {error.strerror}"
        self._journal.close()


def _peer(scope: Mapping[str, Any]) -> str:
    client = scope.get("client")
    return f"{client[0]} port {client[1]}" if client else "unknown"


def _asked(value: object, *, whole: bool = False) -> dict[str, Any]:
    """Values of a request body without possible secrets; `whole` where none of them can be a secret."""
    if not isinstance(value, dict):
        return {}
    told: dict[str, Any] = {}
    for key, each in islice(_dotted(value), _MOST_TOLD) if whole else ((k, value.get(k)) for k in _TOLD):
        if isinstance(each, str):
            told[key] = masked_text(each)[:_LONGEST]
        elif isinstance(each, int | float) or (whole and each is None):
            told[key] = each
    return told


def _dotted(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Flatten nested keys and values, with dotted keys; a list becomes one text."""
    for key, each in value.items():
        name = f"{above}{key}"[:_LONGEST]
        if isinstance(each, dict):
            yield from _dotted(each, f"{name}.")
        else:
            yield name, ", ".join(map(str, each)) if isinstance(each, list) else each
