"""The command `ui`: an address on this machine under which a browser sees the Spark UI of a running job.

A browser cannot send the API's token, and the API marks drivers' pages as pages of no site at all, with
scripts that may send no request. Here a page is of a site of its own, with nothing else on it: it works in
full, may send requests to this site alone, and is shown to everybody that knows its address, which nobody
can guess.
"""

import hmac
import secrets
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import typer
from stoker.errors import StokerError

from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.fetching import Fetched, fetches, show
from daemon.cli.shared.options import JobId, Output
from daemon.core.url_paths import ambiguous

if TYPE_CHECKING:
    from stoker import Stoker

#: Seconds between two looks whether the job still runs.
_LOOK = 2.0
_HEADERS = {
    # Spark's own pages have scripts and styles in them, and build some when they are shown.
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline' 'unsafe-eval' data:; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@fetches()
def ui(
    client: "Stoker",
    job_id: JobId,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port on this machine; 0: any free one.")
    ] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    output: Output = "table",
) -> None:
    """Serve the Spark UI of a running job to a browser, until the job has ended or Ctrl-C.

    Example: stoker ui job-7
    """
    from daemon.cli.shared.follow import ENDED

    job = client.job(job_id)
    job_id = job["id"]
    if job["state"] in ENDED:
        raise CommandError(f"{job_id} is {job['state']}: `stoker history {job_id}` shows its UI")
    if not (ui := job["ui"]):
        raise CommandError(f"{job_id} is {job['state']}: its driver does not run yet")
    try:
        forwarder = Forwarder(client, ui, port)
    except OSError as error:
        raise CommandError(f"--port {port}: cannot be had: {error.strerror}") from None
    with forwarder:
        text = f"{job_id}'s Spark UI, for every user that knows this address: {forwarder.url}"
        show(Fetched({"url": forwarder.url}, text), output)
        sys.stdout.flush()
        if browser:
            import webbrowser

            webbrowser.open(forwarder.url)
        while client.job(job_id)["state"] not in ENDED:
            time.sleep(_LOOK)
    print(f"stoker: {job_id} has ended: `stoker history {job_id}` shows its UI", file=sys.stderr)


class Forwarder:
    """A loopback server that forwards one path of a daemon's API, for as long as its `with` lasts."""

    def __init__(self, client: "Stoker", top: str, port: int = 0) -> None:
        """`top` is the path, with a slash at its end. OSError when the port cannot be had."""
        from stoker import flows

        key, cookie = secrets.token_urlsafe(24), f"stoker-ui-{secrets.token_hex(4)}"

        def below(target: str) -> bool:
            """Whether every server and browser reads this as an address of the job's UI."""
            path = target.partition("?")[0].partition("#")[0]
            return path.startswith(top) and not ambiguous(unquote(path))

        class Handler(BaseHTTPRequestHandler):
            timeout = 30.0

            def do_GET(self) -> None:
                if self.headers.get("Host") not in names:
                    self._answer(421, b"ask for 127.0.0.1\n")
                elif hmac.compare_digest(self.path[: len(key) + 2].encode(), f"/{key}/".encode()):
                    kept = f"{cookie}={key}; HttpOnly; Path=/; SameSite=Lax"
                    self._answer(302, b"", Location=top + self.path[len(key) + 2 :], Set_Cookie=kept)
                elif not hmac.compare_digest(_cookie(self.headers.get("Cookie", ""), cookie), key.encode()):
                    self._answer(403, b"`stoker ui` printed the address to begin with\n")
                elif not below(self.path):
                    self._answer(404, b"there is nothing but the job's UI here\n")
                else:
                    self._forward()

            def _forward(self) -> None:
                try:
                    found = client.run(flows.send("GET", self.path))
                except StokerError as error:
                    self._answer(502, f"{error}\n".encode())
                    return
                location = found.headers.get("Location", "")
                if location and not below(location):
                    self._answer(502, b"the UI sends its visitors elsewhere\n")
                    return
                more = {"Location": location} if location else {}
                kind = found.headers.get("Content-Type", "application/octet-stream")
                self._answer(found.status_code, found.content, Content_Type=kind, **more)

            def _answer(self, status: int, body: bytes, **headers: str) -> None:
                self.send_response(status)
                shown = {"Content_Type": "text/plain", **headers, "Content_Length": str(len(body))}
                for name, value in {**_HEADERS, **shown}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing: addresses have the key in them."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        own = self._server.server_port
        names = (f"127.0.0.1:{own}", f"localhost:{own}")
        self.url = f"http://127.0.0.1:{own}/{key}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> "Forwarder":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _cookie(header: str, name: str) -> bytes:
    """The value of the cookie with that name; Python's own parser takes seconds for some (CVE-2024-7592)."""
    pairs = (each.strip().partition("=") for each in header.split(";"))
    return next((value.encode() for key, _, value in pairs if key == name), b"")
