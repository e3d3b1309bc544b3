"""The endpoints that a master has as any process of Mesos: its help, its files, its log level, its machine.

Nothing here knows of frameworks or agents; those are in `state_views.py`.
"""

import html
import os
import re
from collections.abc import Collection

from framework.embedded.master.http_server import Request, Response, json_response, text_response

HELP, STATS, TOGGLE = "/help", "/system/stats.json", "/logging/toggle"
#: Of files under virtual paths.
FILES = frozenset({"/files/browse", "/files/debug", "/files/read", "/files/download"})
PROCESS_ROUTES = frozenset({HELP, STATS, TOGGLE, *FILES})

#: Purpose of each route of a process, by the name of the process.
_DESCRIBED = {
    "files": {
        "/browse": "Lists a folder. Query: path.",
        "/debug": "Shows the virtual paths.",
        "/download": "Returns a file. Query: path.",
        "/read": "Returns a part of a file. Query: path, offset, length.",
    },
    "logging": {"/toggle": "Sets the log level for a while. Query: level, duration."},
    "metrics": {"/snapshot": "Shows counters and gauges."},
    "system": {"/stats.json": "Shows load, processors and memory of the machine."},
    "version": {"/": "Shows the version."},
}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "secs": 1.0, "mins": 60.0, "hrs": 3600.0}
_SECONDS |= {"days": 86_400.0, "weeks": 604_800.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|secs|mins|hrs|days|weeks)")
_NOT_FOUND = "404 Not Found."


class LogLevel:
    """Log level: 0, except for as long as a client requested more. Nothing here writes such a log."""

    def __init__(self) -> None:
        self._level = 0
        self._until = 0.0

    def handle(self, query: dict[str, str], now: float) -> Response:
        """Return the level, or set it for a while; `now` in seconds."""
        level, duration = query.get("level"), query.get("duration")
        if level is None and duration is None:
            return text_response(200, f"{self._level if now < self._until else 0}\n")
        if level is None or duration is None:
            missing = "level" if level is None else "duration"
            return text_response(400, f"Expecting '{missing}=value' in query.\n")
        if not re.fullmatch(r"-?\d{1,9}", level):
            return text_response(400, f"Failed to convert '{level}' to number.\n")
        if int(level) < 0:
            return text_response(400, f"Invalid level '{int(level)}'.\n")
        if (found := _DURATION.fullmatch(duration)) is None:
            return text_response(400, f"Invalid duration '{duration}'.\n")
        self._level, self._until = int(level), now + float(found[1]) * _SECONDS[found[2]]
        return Response(200)


def stats() -> dict[str, float]:
    """`/system/stats.json`."""
    page = os.sysconf("SC_PAGE_SIZE")
    load = dict(zip(("avg_load_1min", "avg_load_5min", "avg_load_15min"), os.getloadavg(), strict=True))
    return load | {
        "cpus_total": os.sysconf("SC_NPROCESSORS_ONLN"),
        "mem_total_bytes": page * os.sysconf("SC_PHYS_PAGES"),
        "mem_free_bytes": page * os.sysconf("SC_AVPHYS_PAGES"),
    }


def files(route: str, query: dict[str, str]) -> Response:
    """`/files/...` of a master that logs into no file: it has none to show."""
    if route == "/files/debug":
        return json_response({})
    if not query.get("path"):
        return text_response(400, "Expecting 'path=value' in query.\n")
    return text_response(404, _NOT_FOUND)


def help_page(request: Request, master_routes: Collection[str]) -> Response:
    """`/help`, `/help/PROCESS` and `/help/PROCESS/NAME`: as Markdown for curl, in HTML for others."""
    described = _DESCRIBED | {"master": dict.fromkeys(master_routes, "See the documentation of Mesos.")}
    parts = [part for part in request.path.split("/") if part][1:]
    if len(parts) > 2:
        return text_response(400, "Malformed URL, expecting '/help/id/name/'\n")
    if not parts:
        told = "## HELP\n" + "".join(f"> [/{name}](help/{name})\n" for name in sorted(described))
    elif parts[0] not in described or (len(parts) == 2 and f"/{parts[1]}" not in described[parts[0]]):
        return text_response(400, f"No help available for '/{'/'.join(parts)}'.\n")
    elif len(parts) == 1:
        told = f"## `/{parts[0]}` ##\n" + "".join(
            f"> [/{parts[0]}{name}](/help/{parts[0]}{name})\n" for name in sorted(described[parts[0]])
        )
    else:
        told = f"### USAGE ###\n>        /{'/'.join(parts)}\n\n{described[parts[0]][f'/{parts[1]}']}\n"
    if request.headers.get("user-agent", "").startswith(("curl", "HTTPie")):
        return Response(200, told.encode(), {"Content-Type": "text/x-markdown"})
    page = f"<html><head><title>Help</title></head><body><pre>{html.escape(told)}</pre></body></html>"
    return Response(200, page.encode(), {"Content-Type": "text/html"})
