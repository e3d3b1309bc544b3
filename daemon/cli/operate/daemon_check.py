"""The doctor's check of a running daemon: whether it answers, is ready, and is of this version."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from daemon.cli.shared.errors import CommandError
from daemon.maintenance.doctor_report import DoctorFinding, DoctorReport

_CHECK = "daemon"


def look_at_daemon(report: DoctorReport, url: str, token_file: Path | None, ca: Path | None) -> None:
    """Add to a report the faults of the daemon at a URL."""
    from daemon.cli.shared.client import Client

    def find(what: str, advice: str) -> None:
        report.findings.append(DoctorFinding(_CHECK, f"{url.strip()}: {what}", advice))

    report.looked_at[_CHECK] = 1
    try:
        client = Client(url, token_file, ca)
    except CommandError as error:
        return find(str(error), "mend STOKER_URL, STOKER_TOKEN_FILE or STOKER_CA")
    with client:
        try:
            alive, ready = _json(client.page("/healthz")), _json(client.page("/readyz"))
        except CommandError as error:
            return find(str(error), "start it with `stoker up`, or mend STOKER_URL")
        if alive.get("status") != "ok":
            return find("it answers otherwise than a Stoker daemon does", "mend STOKER_URL")
        if (there := alive.get("version")) != (here := version("stoker")):
            find(f"it is of version {there}, this is {here}", "install the same version here as there")
        if not ready.get("ready"):
            checks = "; ".join(f"{name}: {why}" for name, why in ready.get("checks", {}).items())
            find(f"it is not ready: {checks}", "its log says more")
        try:
            client.me()
        except CommandError as error:
            find(str(error), "`stoker user token` makes a token; STOKER_TOKEN_FILE names its file")
    return None


def _json(page: tuple[int, str, str, bytes]) -> dict[str, Any]:
    """A page's object; empty where it is none."""
    try:
        found = json.loads(page[3])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
