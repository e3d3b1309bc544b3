"""`stoker up`: begins, serves until it is stopped, and takes everything apart again.

It makes the parts of every daemon, whether it leads or not: its folder, its store, its threads. `wiring.py`
assembles the scheduler, `http/server/listen_address.py` defines the address,
`http/server/uvicorn_server.py` the HTTP server.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

import structlog

from conf.loader import ConfigError
from conf.schema import Config
from conf.util.gc_pause import uncollected
from daemon.auth.audit_log import Audit
from daemon.auth.user_directory import Directory
from daemon.auth.users_file import users_path
from daemon.core.logging import configure_logging, say_suppressed
from daemon.core.tls import Certificate
from daemon.disk.crash_mark import RunningMark
from daemon.disk.run_as import RunAs, rights_of
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.http.server.listen_address import listen, say_who_may_ask, token_of, url_of
from daemon.http.server.uvicorn_server import serve
from daemon.leader_or_standby import Candidate
from daemon.maintenance.systemd import Notifier
from daemon.maintenance.user_checks import lacks_admin
from daemon.store.job_store import Store
from daemon.wiring import DaemonSetting, candidacy, open_store
from framework.host.forced_exit import end_within
from framework.host.stop_signals import SignalSender, told_of
from framework.spark import SparkHomes

log = structlog.get_logger("daemon")

#: Seconds after which a thread lets another one compute.
_SWITCH_SECONDS = 0.001


def run(config: Config, config_dir: Path, log_level: str = "info") -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code.

    Raises ConfigError, StoreError, EmbeddedError or PolicyError with a text for the user when the daemon
    cannot start: nothing is left running then.
    """
    throttle, notifier = configure_logging(log_level, config.log_rate), Notifier()
    os.umask(0o077)  # other users may not read the daemon's files; jobs have a mask of their own
    data_dir = _data_dir(config)
    rights = _rights(config, data_dir)
    with ExitStack() as stack:
        mark, failures = RunningMark(data_dir), list[BaseException]()
        stack.enter_context(told_of(partial(_told_to_stop, mark, failures)))
        signal.signal(signal.SIGTERM, partial(_end_start, failures))
        certificate = None if config.tls is None else Certificate(config.tls)
        listener = stack.enter_context(listen(config))
        token = token_of(config)
        store = open_store(config.database or f"sqlite:///{data_dir / 'stoker.db'}")
        stack.callback(store.close)
        mark.begin()
        stack.callback(_end_mark, mark, failures)
        directory = _directory(config, config_dir, store, token, stack)
        url = url_of(config, listener)
        setting = DaemonSetting(config, config_dir, data_dir, rights, url)
        candidate = stack.enter_context(candidacy(setting, store, _settling))
        log.info("listening", url=url, page=f"{url}/", data_dir=str(data_dir), policy=config.policy.name)
        say_who_may_ask(config, token)
        loop = threading.Thread(target=_loop, args=(candidate, failures), name="scheduler")
        loop.start()
        stack.callback(loop.join)
        stack.callback(candidate.stop)
        app = create_app(
            candidate,
            store,
            AppOptions(
                token=token,
                version=version("stoker"),
                max_requests=config.max_requests,
                audit=_audit(config, data_dir, stack),
                homes=SparkHomes(config.spark, os.environ),
                driver=config.driver,
                data_dir=data_dir,
                users=config.users,
                directory=directory,
                account=config.mesos.framework_name,
                region=getattr(config.provider, "region", None),
                commitments=config.commitments,
            ),
        )
        _settle()
        # Several threads make an answer in turn: each of their turns would wait 5 ms for another thread's.
        sys.setswitchinterval(_SWITCH_SECONDS)

        def look() -> None:
            notifier.ready()
            say_suppressed(throttle)
            if certificate is not None:
                certificate.refresh()

        ending = app.state.stream.close
        tls = certificate.context if certificate else lambda: None
        serve(app, listener, config.http, tls, look, ending)
        notifier.stopping()
    log.info("stopped", exit_code=1 if failures else 0)
    return 1 if failures else 0


def _end_mark(mark: RunningMark, failures: Sequence[BaseException]) -> None:
    """Leave none, unless the scheduling loop failed: the next daemon tells of that."""
    if not failures:
        mark.end()


def _told_to_stop(mark: RunningMark, failures: Sequence[BaseException], sender: SignalSender) -> None:
    """Log the sender, so that an order differs from a crash, and see to it that the daemon ends in time."""
    failed = bool(failures)
    end_within(code=1 if failed else 0)
    why = "its scheduling loop failed" if failed else f"{sender.signal} was sent"
    log.warning("told to stop", why=why, **sender._asdict())
    if not failed:
        mark.end()


def _end_start(failures: Sequence[BaseException], *_: object) -> None:
    """Handle SIGTERM until the server handles it: undo the start, so that no idle Mesos is left."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    sys.exit(1 if failures else 0)


@contextmanager
def _settling() -> Iterator[None]:
    """Disable garbage collection in the block, where it took a seventh of the time; freeze the rest after."""
    with uncollected():
        yield
    _settle()


def _settle() -> None:
    """Exempt all present objects from garbage collection, which takes 60 ms each time with them."""
    gc.collect()
    gc.freeze()


def _rights(config: Config, data_dir: Path) -> RunAs:
    homes = SparkHomes(config.spark, os.environ)
    try:
        homes.named(None)
    except ValueError as error:
        raise ConfigError(f"spark.default: {error}") from error
    needed = []
    for name in homes.names():
        with suppress(ValueError):  # it is on the VMs alone
            spark = homes.here(name)
            needed += [Path(spark.home, "bin/spark-class"), Path(spark.java_home or "/", "bin/java")]
            needed += [Path(spark.python)]
    try:
        return rights_of(config, data_dir, needed)
    except OSError as error:
        raise ConfigError(str(error)) from error


def _loop(candidate: Candidate, failures: list[BaseException]) -> None:
    try:
        candidate.run()
    except BaseException as error:
        # Without its loop the daemon is of no use: better to end and be started again than to look alive.
        log.exception("the scheduling loop failed")
        failures.append(error)
        os.kill(os.getpid(), signal.SIGTERM)


def _directory(
    config: Config, config_dir: Path, store: Store, token: str | None, stack: ExitStack
) -> Directory | None:
    if config.users is None:
        return None
    file = config.users.file
    directory = Directory(store.users, None if file is None else users_path(file, config_dir))
    directory.start()
    stack.callback(directory.close)
    if why := lacks_admin(config.users, token, (user for user, _, _ in directory.all())):
        log.warning("no user may manage users", why=why)
    return directory


def _audit(config: Config, data_dir: Path, stack: ExitStack) -> Audit | None:
    if not config.audit.on:
        return None
    path = data_dir / "audit.jsonl"
    try:
        audit = Audit(path, size=config.audit.size << 20, earlier=config.audit.earlier)
    except OSError as error:
        raise ConfigError(f"audit: {path}: cannot be written: {error.strerror}") from error
    stack.callback(audit.close)
    return audit


def _data_dir(config: Config) -> Path:
    data_dir = Path(config.data_dir).expanduser().absolute()
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"data_dir: {data_dir}: {error.strerror}") from error
    if not os.access(data_dir, os.W_OK):
        raise ConfigError(f"data_dir: {data_dir}: is not writable")
    return data_dir
