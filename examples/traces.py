"""Shows the traces that a daemon sends, in place of an OpenTelemetry collector, each as a table of its spans.

python examples/traces.py & stoker up --set telemetry.endpoint=http://127.0.0.1:4318
"""

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

#: The attributes that are shown, without what stands before all of them.
SHOWN = ("job.id", "job.state", "queue", "policy", "pool", "task", "vm", "cost")


def lines(export: Any) -> Iterator[str]:
    """The spans of a request: seconds since the trace began, for how long, which one, and what of."""
    for each in export["resourceSpans"]:
        spans = [span for scope in each["scopeSpans"] for span in scope["spans"]]
        spans.sort(key=lambda span: (int(span["startTimeUnixNano"]), "parentSpanId" in span))
        began = int(spans[0]["startTimeUnixNano"])
        yield f"trace {spans[0]['traceId']}"
        for span in spans:
            since, until = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
            found = {one["key"].removeprefix("stoker."): one["value"] for one in span["attributes"]}
            told = " ".join(f"{name}={_text(found[name])}" for name in SHOWN if name in found)
            failed = f" failed: {span['status']['message']}" if "status" in span else ""
            times = f"{(since - began) / 1e9:9.3f} {(until - since) / 1e9:9.3f}"
            yield f"{times}  {span['name']:<9}{told}{failed}".rstrip()


def _text(value: Any) -> str:
    (told,) = value.values()
    return f"{told:.4f}" if isinstance(told, float) else str(told)


class Collector(BaseHTTPRequestHandler):
    """Takes every request."""

    def do_POST(self) -> None:
        """Show what comes, and take it."""
        export = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(*lines(export), sep="\n", flush=True)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Nothing but traces is shown."""


if __name__ == "__main__":
    with HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 4318), Collector) as server:
        print(f"waiting for traces at http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
