"""The command `history`: Spark's own history server on the event logs of this host, until Ctrl-C.

The server reads files that jobs wrote: so it runs as the account of the jobs, on copies, without access to
the daemon's files.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.cli.shared.daemon_config import (
    ConfigFile,
    Settings,
    data_dir_of,
    read_config,
    sqlite_file_of,
    url_of,
)
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.options import DEFAULT_URL, Output, Url
from framework.host.untrusted_files import read_part, read_tail

if TYPE_CHECKING:
    from conf.schema import Config
    from daemon.launch.event_log_export import CopiedLogs
    from framework.host.unix_users import UnixAccount
    from framework.spark import SparkHome

#: Seconds for the server to listen; and between two looks.
_START, _LOOK = 120.0, 0.2
#: Bytes of the server's output that are read: what it prints depends on logs that jobs wrote.
_MOST_PRINTED = 1 << 20


def history(
    job_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Only this job's: its id or name.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: any free one.")
    ] = 18080,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    most: Annotated[
        int, typer.Option("--most", min=1, help="Maximum size of event logs in MiB, newest first.")
    ] = 4096,
    config: ConfigFile = None,
    settings: Settings = None,
    url: Url = DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Show the Spark UI of finished jobs: Spark's history server, until Ctrl-C.

    It has no authentication: every user that reaches its port sees the logs. It reads the logs in the data
    folder on this host, not from a daemon's URL.

    Example: stoker history job-7
    """
    from daemon.disk.job_folders import temporary_folder
    from daemon.launch.event_log_export import copy_event_logs, find_event_logs

    if url.rstrip("/") != DEFAULT_URL and config is None and not settings:
        raise CommandError(
            f"--url {url}: this reads event logs where they are, in a data folder: run it on that daemon's "
            "host, with its --config, or --set data_dir=FOLDER"
        )
    loaded, _ = read_config(config, settings)
    data_dir = data_dir_of(loaded)
    if job_id is not None and not re.fullmatch(r"job-[1-9]\d{0,17}", job_id):
        job_id = _named(job_id, loaded, data_dir)
    spark, account = _newest_spark(loaded), _account(loaded)
    with _quick_end(), temporary_folder("stoker-history-") as folder:
        logs = folder / "logs"
        logs.mkdir(mode=0o700)
        try:
            next((data_dir / "records").iterdir(), None)
            found = find_event_logs(data_dir, job_id)
            copied = copy_event_logs(found, logs, most << 20, _told)
        except FileNotFoundError:
            why = "run this on the daemon's host, with the daemon's --config"
            raise CommandError(f"{data_dir}: holds no jobs: {why}") from None
        except PermissionError:
            raise CommandError(
                f"{data_dir}: belongs to another user: run this as the daemon's user"
            ) from None
        except OSError as error:
            raise CommandError(f"the event logs cannot be copied: {error}") from None
        if not copied.logs:
            whose = f"of {job_id}" if job_id else "here"
            raise CommandError(f"there is no event log {whose}: a driver writes one when its context is made")
        if copied.left_out:
            names = ", ".join(sorted({log.job_id for log in copied.left_out})[:5])
            _say(f"{len(copied.left_out)} event logs are left out (--most, or not readable): {names}")
        _give(logs, account)
        with _server(spark, logs, host, port, account) as (process, server_log):
            url = _await(process, server_log, host)
            _show(url, copied, job_id, output)
            process.wait()
            raise CommandError(f"the history server ended: {_last_words(server_log)}", 1)


def _named(name: str, config: "Config", data_dir: Path) -> str:
    """The id of the job of that name, as by the daemon; CommandError where there is none, or several."""
    from daemon.auth.permits import Permit
    from daemon.http.routes.jobs.job_names import find_job
    from daemon.store.job_store import Store

    url = url_of(config, data_dir)
    if url.startswith("sqlite") and not sqlite_file_of(config, data_dir, "").exists():
        raise CommandError(f"{data_dir}: holds no job store (stoker.db) of a daemon")
    with contextlib.closing(Store(url)) as store:
        return find_job(store, Permit(), name).job.id


def _newest_spark(config: "Config") -> "SparkHome":
    """The newest Spark on this host: it reads the logs of earlier ones."""
    from framework.spark import SparkHomes

    homes = SparkHomes(config.spark, os.environ)
    here = []
    for name in homes.names():
        with contextlib.suppress(ValueError):
            here.append(homes.here(name))
    if not here:
        raise CommandError("no Spark on this host: `stoker spark add` downloads one")
    return max(here, key=lambda home: home.line)


def _account(config: "Config") -> "UnixAccount | None":
    """The Unix account under which jobs run, if it is not the current one; None otherwise."""
    from daemon.disk.run_as import PREFERRED
    from framework.host.unix_users import find_account

    if os.geteuid() != 0 or config.run_as is None:
        return None
    for name in PREFERRED if config.run_as == "auto" else (config.run_as,):
        with contextlib.suppress(KeyError):
            return find_account(name)
    return None


def _give(folder: Path, account: "UnixAccount | None") -> None:
    """Let that user have a folder with all in it, and pass through the one around it, which stays ours.

    The user's jobs run meanwhile, and can exchange what lies in a folder of theirs: so each folder is given
    after its content, and nothing of ours is done in one that was given.
    """
    if account is None:
        return
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            os.chown(Path(parent, name), account.uid, account.gid, follow_symlinks=False)
    os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    folder.parent.chmod(0o711)


@contextlib.contextmanager
def _server(
    spark: "SparkHome", logs: Path, host: str, port: int, account: "UnixAccount | None"
) -> Iterator["tuple[subprocess.Popen[bytes], Path]"]:
    """Start the history server; yield its process and the file with its output; end it with the context."""
    own = logs.parent / "own"  # what the server writes; its output is ours
    own.mkdir(mode=0o700)
    _give(own, account)
    options = {
        "spark.history.fs.logDirectory": logs.as_uri(),
        "spark.history.fs.cleaner.enabled": "false",
        "spark.history.ui.port": str(port),
        "spark.port.maxRetries": "0",
        "java.io.tmpdir": str(own),
    }
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(own),
        "SPARK_HOME": spark.home,
        "SPARK_LOCAL_IP": host,
        "SPARK_HISTORY_OPTS": " ".join(f"-D{name}={value}" for name, value in options.items()),
        **({"JAVA_HOME": spark.java_home} if spark.java_home else {}),
    }
    printed = logs.parent / "server.log"
    with printed.open("wb") as file:
        process = subprocess.Popen(
            [f"{spark.home}/bin/spark-class", "org.apache.spark.deploy.history.HistoryServer"],
            cwd=own,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=None if account is None else list(account.groups),
        )
    try:
        yield process, printed
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # it has nothing to lose
        process.wait()


def _await(process: "subprocess.Popen[bytes]", printed: Path, host: str) -> str:
    """The server's URL, once it listens there."""
    _say("starting Spark's history server ...")
    deadline = time.monotonic() + _START
    started = re.compile(rb"HistoryServer.{0,100}http://[^\s:]{1,200}:(\d{1,5})")
    while process.poll() is None and time.monotonic() < deadline:
        if match := started.search(read_part(printed.parent, printed.name, 0, _MOST_PRINTED)):
            shown = f"[{host}]" if ":" in host else host
            return f"http://{shown}:{int(match[1])}"
        time.sleep(_LOOK)
    raise CommandError(f"the history server did not start: {_last_words(printed)}", 1)


def _last_words(printed: Path) -> str:
    from framework.spark import last_words

    text = last_words(read_tail(printed.parent, printed.name, _MOST_PRINTED), b"").text
    return text or "it printed nothing"


def _show(url: str, copied: "CopiedLogs", job_id: str | None, output: str) -> None:
    applications = [
        {"job": log.job_id, "application": shown, "url": f"{url}/history/{shown}/"}
        for shown, log in copied.logs.items()
    ]
    if output == "json":
        print(json.dumps({"url": url, "applications": applications}), flush=True)
        return
    several = "" if len(applications) == 1 else "s"
    print(
        f"Spark's history server: {url} ({len(applications)} application{several}). Ctrl-C ends it.",
        flush=True,
    )
    if job_id is not None:
        for application in applications:
            print(application["url"], flush=True)


def _told(done: int, total: int) -> None:
    if done == total or done % 100 == 0:
        _say(f"copied {done} of {total} event logs")


def _say(text: str) -> None:
    print(f"stoker: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _quick_end() -> Iterator[None]:
    """Let SIGTERM end this as Ctrl-C does, so that nothing is left behind."""

    def end(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Abort from None
    finally:
        signal.signal(signal.SIGTERM, before)
