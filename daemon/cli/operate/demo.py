"""The command `demo`: three real Spark jobs on VMs that come and go with them, watched, and the bill.

The daemon under it is in `temporary_daemon`, the tables are in `demo_tables`.
"""

import contextlib
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from stoker.characters import visible

from daemon.cli.shared.errors import CommandError, end_in_order
from daemon.cli.shared.options import DEFAULT_URL

if TYPE_CHECKING:
    from stoker import Stoker

    from daemon.cli.operate.temporary_daemon import TemporaryDaemon
    from daemon.cli.shared.follow import Stream

Json = dict[str, Any]

CLUSTER = "clusters/demo.yaml"
#: Seconds after the last job within which all VMs should be closed.
_CLOSING_SECONDS = 60.0

#: The submitted jobs: an app in `profiles/apps`, and its number of executors of one cpu and 1 GiB.
JOBS = (("wordcount", 3), ("pagerank", 2), ("sort", 3))
#: The jobs are to run at once, with their drivers, also where fewer processes would be done as soon.
_MESOS = {"jvms": sum(executors + 1 for _, executors in JOBS)}


def demo(
    policy: Annotated[
        str, typer.Option("--policy", metavar="NAME", help="The policy: ff, rr, rrc, ...")
    ] = "ff",
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the folder with store, logs and config.")
    ] = False,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="A folder to use and keep; new or empty.")
    ] = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="Time limit of the jobs; then the demo fails."),
    ] = 900.0,
    stay: Annotated[
        bool,
        typer.Option(
            "--stay",
            help="Keep the daemon running after the jobs, until Ctrl-C, at the default address of commands.",
        ),
    ] = False,
) -> int:
    """Run three real Spark jobs on VMs opened for them; show placement and cost.

    Example: stoker demo --policy greedy
    """
    if stay:
        _check_free(DEFAULT_URL)
    end_in_order()
    with contextlib.ExitStack() as stack:
        folder = _own_folder(data_dir) if data_dir else _temporary_folder(stack, keep)
        kept = keep or data_dir is not None
        return _play(folder, policy, timeout, kept, stay)


def _play(folder: Path, policy: str, timeout: float, kept: bool, stay: bool) -> int:
    from stoker import Stoker

    from daemon.cli.operate import demo_tables
    from daemon.cli.operate.temporary_daemon import TemporaryDaemon
    from daemon.cli.shared import render

    screen = render.console()
    at = {"listen": DEFAULT_URL.removeprefix("http://")} if stay else {}
    with TemporaryDaemon(folder, policy, CLUSTER, _MESOS, **at) as daemon, Stoker(daemon.url) as client:
        with screen.status("starting the daemon and the embedded Mesos ..."):
            daemon.await_ready(client)
        pools, began = client.cluster()["pools"], time.monotonic()
        render.show(demo_tables.opening(pools, policy, daemon.url))
        job_ids = [_submit(client, app, executors) for app, executors in JOBS]
        jobs = _watch(daemon, client, job_ids, time.monotonic() + timeout)
        with screen.status("waiting for the VMs to be closed ..."):
            closed = _all_closed(client)
        bill = demo_tables.Paid(client.bill(by="vm"), pools, time.monotonic() - began, closed=closed)
        render.show(*demo_tables.closing(jobs, *_lookups(client, jobs), bill))
        code = _verdict(client, jobs, timeout)
        if stay:
            render.show(demo_tables.staying(daemon.url, job_ids[0]))
            _stay(daemon)
    render.show(demo_tables.outlook(daemon.config_file if kept else None, daemon.url, job_ids[0]))
    return code


def _submit(client: "Stoker", app: str, executors: int) -> str:
    import profiles.apps

    path = Path(profiles.apps.__file__).with_name(f"{app}.py")
    spec = {"app": str(path), "type": app, "executors": executors, "cpus": 1.0, "memory": 1024}
    job_id: str = client.submit_spec(spec)["id"]
    return job_id


def _watch(daemon: "TemporaryDaemon", client: "Stoker", job_ids: list[str], give_up: float) -> list[Json]:
    """Show the jobs until all have ended or it takes too long; the jobs as they are then."""
    from daemon.cli.operate import demo_tables
    from daemon.cli.shared import follow

    with demo_tables.screen() as update:
        while True:
            daemon.check_alive()
            jobs: list[Json] = [dict(client.job(job_id)) for job_id in job_ids]
            update(jobs)
            if all(job["state"] in follow.ENDED for job in jobs) or time.monotonic() > give_up:
                return jobs
            time.sleep(follow.POLL_SECONDS)


def _all_closed(client: "Stoker") -> bool:
    """Wait until no VM is open any more, for a while; whether that is so."""
    give_up = time.monotonic() + _CLOSING_SECONDS
    while client.cluster()["vms"]:
        if time.monotonic() > give_up:
            return False
        time.sleep(0.2)
    return True


def _lookups(client: "Stoker", jobs: list[Json]) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """For each job: the decisions about it, and the last line that its app printed."""
    decisions: dict[str, list[Any]] = {job["id"]: client.explain(job["id"])["explanations"] for job in jobs}
    return decisions, {job["id"]: _tail(client, job["id"], "stdout", 1) for job in jobs}


def _tail(client: "Stoker", job_id: str, stream: "Stream", lines: int) -> str:
    from daemon.cli.shared import follow

    parts = follow.log(client, job_id, None, stream, False, lambda _: None)
    text = "".join(part["text"] for part in parts)
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])


def _verdict(client: "Stoker", jobs: list[Json], timeout: float) -> int:
    """Print on stderr why each unfinished job failed; 0 when all jobs finished."""
    from daemon.cli.shared.follow import ENDED

    failed = [job for job in jobs if job["state"] != "finished"]
    for job in failed:
        late = "" if job["state"] in ENDED else f" and was not done after {timeout:g} s"
        print(
            visible(f"\nstoker: job {job['id']} ({job['name']}) is {job['state']}{late}: {job['reason']}"),
            file=sys.stderr,
        )
        print(
            visible(f"The end of its driver's log:\n{_tail(client, job['id'], 'stderr', 30)}"),
            file=sys.stderr,
        )
    return 1 if failed else 0


def _stay(daemon: "TemporaryDaemon") -> None:
    """Wait for Ctrl-C, or for the daemon's end."""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            daemon.check_alive()
            time.sleep(1.0)


def _check_free(url: str) -> None:
    """CommandError where somebody listens there."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError as error:
            why = f"{url}: {error.strerror}; a daemon may be running there, which --stay would be beside"
            raise CommandError(why) from None


def _own_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = any(folder.iterdir())
    except OSError as error:
        raise CommandError(f"--data-dir {folder}: {error.strerror or error}") from None
    if occupied:
        raise CommandError(f"--data-dir {folder}: should be new or empty")
    return folder.resolve()


def _temporary_folder(stack: contextlib.ExitStack, keep: bool) -> Path:
    if keep:
        return Path(tempfile.mkdtemp(prefix="stoker-demo-"))
    from daemon.disk.job_folders import temporary_folder

    return stack.enter_context(temporary_folder("stoker-demo-"))
