"""The doctor's check of a running daemon: whether it answers, is ready, and is of this version."""

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.maintenance.doctor_report import DoctorFinding, DoctorReport

if TYPE_CHECKING:
    from stoker import Stoker

_CHECK = "daemon"


def look_at_daemon(report: DoctorReport, url: str, token_file: Path | None, ca: Path | None) -> None:
    """Add to a report the faults of the daemon at a URL."""
    from stoker import Stoker, StokerError

    def find(what: str, advice: str) -> None:
        report.findings.append(DoctorFinding(_CHECK, f"{url}: {what}", advice))

    report.looked_at[_CHECK] = 1
    try:
        client = Stoker(url, token_file, ca)
    except StokerError as error:
        return find(str(error), "mend STOKER_URL, STOKER_TOKEN_FILE or STOKER_CA")
    with client:
        try:
            alive, ready = _object(client, "/healthz"), _object(client, "/readyz")
        except StokerError as error:
            return find(str(error), "start it with `stoker up`, or mend STOKER_URL")
        if alive.get("status") != "ok":
            return find("it does not answer as a Stoker daemon does", "mend STOKER_URL")
        if (there := alive.get("version")) != (here := version("stoker")):
            find(f"it is of version {there}, this is {here}", "install the same version here as there")
        if not ready.get("ready"):
            checks = "; ".join(f"{name}: {why}" for name, why in ready.get("checks", {}).items())
            find(f"it is not ready: {checks}", "its log says more")
        try:
            client.whoami()
        except StokerError as error:
            find(str(error), "`stoker user token` makes a token; STOKER_TOKEN_FILE names its file")
    return None


def _object(client: "Stoker", path: str) -> dict[str, Any]:
    """The object that the daemon answers; empty where it is none."""
    from stoker import flows

    return flows.json_object(client.run(flows.send("GET", path))) or {}
