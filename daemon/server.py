"""`stoker up`: puts the parts together, serves until it is told to stop, and takes them apart again."""

import gc
import getpass
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path

import structlog

from conf.loader import ConfigError, find
from conf.reading import read_secret
from conf.schema import Config
from daemon.api import create_app
from daemon.audit import Audit
from daemon.candidate import Candidate
from daemon.database import is_full
from daemon.embedded import Embedded, start_embedded
from daemon.embedded_watch import EmbeddedWatch
from daemon.front import serve
from daemon.launcher import Launcher
from daemon.leadership import Election, FileElection, LeaseElection, ZooKeeperElection
from daemon.logging import configure_logging, say_suppressed
from daemon.machine import this_machine
from daemon.notify import Notifier
from daemon.pruning import retention
from daemon.rights import Rights, rights_of
from daemon.service import Service
from daemon.store import Store, StoreError, StoreFullError
from daemon.terms import Term
from daemon.tls import Certificate
from framework.embedded.isolation import IsolationOptions
from framework.session import SessionOptions
from framework.spark import local_spark_home
from profiles.profile import JobProfile, load_profiles

log = structlog.get_logger("daemon")

#: Seconds after which a thread lets another one compute.
_SWITCH_SECONDS = 0.001
#: Seconds after which a disk without room is tried again.
_PAUSE = 1.0


def run(config: Config, config_dir: Path, log_level: str = "info") -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code.

    Raises ConfigError, StoreError, EmbeddedError or PolicyError with a text for the user when the daemon
    cannot start: nothing is left running then.
    """
    throttle, notifier = configure_logging(log_level, config.log_rate), Notifier()
    os.umask(0o077)  # what the daemon writes is nobody else's; jobs have a mask of their own
    data_dir = _data_dir(config)
    rights = _rights(config, data_dir)
    with ExitStack() as stack:
        certificate = None if config.tls is None else Certificate(config.tls)
        listener = stack.enter_context(_listen(config))
        token = _token(config)
        store = _opened(config.database or f"sqlite:///{data_dir / 'stoker.db'}")
        stack.callback(store.close)
        candidate = _candidate(config, config_dir, store, data_dir, rights, _url(config, listener), stack)
        _say_hello(listener, config, token, data_dir)
        failures: list[BaseException] = []
        loop = threading.Thread(target=_loop, args=(candidate, failures), name="scheduler")
        loop.start()
        stack.callback(loop.join)
        stack.callback(candidate.stop)
        app = create_app(
            candidate,
            store,
            token=token,
            version=version("stoker"),
            max_requests=config.max_requests,
            audit=_audit(config, data_dir, stack),
        )
        _settle()
        # Several threads make an answer in turn: each of their turns would wait 5 ms for somebody else's.
        sys.setswitchinterval(_SWITCH_SECONDS)

        def look() -> None:
            notifier.ready()
            say_suppressed(throttle)
            if certificate is not None:
                certificate.refresh()

        serve(app, listener, config.http, certificate.context if certificate else lambda: None, look)
        notifier.stopping()
    return 1 if failures else 0


def _settle() -> None:
    """What is there by now stays: looking through all of it for garbage takes 60 ms, each time."""
    gc.collect()
    gc.freeze()


def _candidate(
    config: Config,
    config_dir: Path,
    store: Store,
    data_dir: Path,
    rights: Rights,
    url: str,
    stack: ExitStack,
) -> Candidate:
    """A daemon that leads already when nobody else does; StoreBusyError when it could never."""
    profiles = load_profiles(str(find(config.profiles, config_dir)))
    launcher = _launcher(config, data_dir, rights)
    election = _election(config, store)
    stack.callback(election.resign)

    @contextmanager
    def lead(term: Term) -> Iterator[Service]:
        own = store.during(term)
        with (
            retention(own, data_dir, config.retention),
            _mesos(config, config_dir, data_dir, store) as embedded,
        ):
            yield _service(config, own, term, data_dir, rights, embedded, profiles, url)

    candidate = Candidate(store, election, url, lead, lambda: _sweep(launcher, store))
    try:
        leads = candidate.stand()
    except Exception as error:
        if not is_full(error):
            raise
        log.error("cannot take the lead", error=str(error))
        leads = False
    if not leads:
        log.info("standing by", leader=store.leader(), why=election.state)
    return candidate


def _opened(url: str) -> Store:
    """The job store, once its disk has room for it; StoreError for what does not pass."""
    while True:
        try:
            return Store(url)
        except StoreFullError as error:
            log.error("waiting for room on the disk", error=str(error), seconds=_PAUSE)
            time.sleep(_PAUSE)


def _election(config: Config, store: Store) -> Election:
    """How the leader is found; StoreBusyError when this daemon could never lead."""
    if config.leader.zookeeper:
        store.lock(shared=True)
        return ZooKeeperElection(config.leader.zookeeper, store, config.leader.lease)
    if store.shared:
        return LeaseElection(store, config.leader.lease)
    store.lock()
    return FileElection(store)


@contextmanager
def _mesos(config: Config, config_dir: Path, data_dir: Path, store: Store) -> Iterator[EmbeddedWatch | None]:
    """The embedded Mesos and the watch over it, for a daemon that leads and wants one."""
    if config.mesos.master != "embedded":
        yield None
        return
    mesos = config.mesos
    isolation = IsolationOptions(mesos.isolation_scale, mesos.isolation_bandwidth, mesos.isolation_delay)

    def start(port: int) -> Embedded:
        return start_embedded(
            find(mesos.cluster, config_dir), port, data_dir, isolation if mesos.isolation == "vm" else None
        )

    embedded = start(mesos.port)
    how = "taken over" if embedded.taken_over else "started"
    log.info("embedded mesos, for this machine only", how=how, address=embedded.address, pid=embedded.pid)
    if embedded.isolation:
        log.info("isolation of VMs", state=embedded.isolation)
    watch = EmbeddedWatch(embedded, start)
    try:
        yield watch
    finally:
        _leave_embedded(watch.stop(), store)


def _sweep(launcher: Launcher, store: Store) -> None:
    """End drivers on this host that were given up by a leader elsewhere."""
    for job_id in launcher.launched():
        job = store.job(job_id)
        if job is None or not job.driver_on:
            continue
        undone = job.started_at is None and (job.aborting or job.placed_at is None)
        if job.ended or undone or not launcher.is_here(job.driver_on):
            try:
                if launcher.driver_status(job_id).state == "running":
                    log.info("driver given up", job=job_id)
                launcher.abandon(job_id, afresh=not job.ended)
            except OSError as error:  # the next sweep may do better
                log.warning("a driver cannot be given up", job=job_id, why=str(error))


def _service(
    config: Config,
    store: Store,
    term: Term,
    data_dir: Path,
    rights: Rights,
    watch: EmbeddedWatch | None,
    profiles: Mapping[str, JobProfile],
    url: str,
) -> Service:
    embedded = watch.embedded if watch else None
    master = embedded.address if embedded else config.mesos.master
    mesos = config.mesos
    session = SessionOptions(
        master=master,
        framework_name=mesos.framework_name,
        roles=mesos.roles,
        user=mesos.user or getpass.getuser(),
        task_user=mesos.user or (rights.account.name if embedded and rights.account else None),
        principal=embedded.principal if embedded else mesos.principal,
        secret=embedded.secret if embedded else _mesos_secret(config),
        failover_timeout=mesos.failover_timeout,
        task_image=config.spark.image,
        secret_variables=embedded is not None or mesos.secret_variables,
        gpus=mesos.gpus,
        webui_url=url,
    )
    launcher = _launcher(config, data_dir, rights, embedded.host if embedded else "")
    sandboxes = data_dir / "mesos" / "work" / "agents" if embedded else None
    try:
        return Service(
            config,
            store,
            launcher,
            session,
            term,
            data_dir=data_dir,
            sandboxes=sandboxes,
            profiles=profiles,
            watch=watch,
            jvms=_jvms(config),
            restored=_settle,
        )
    except OSError as error:
        raise ConfigError(f"data_dir: {error}") from error


def _jvms(config: Config) -> int | None:
    """How many JVMs may run at once; None: any number."""
    jvms = config.mesos.jvms
    if jvms is None and config.mesos.master == "embedded":
        machine = this_machine()
        jvms = machine.jvms
        log.info(
            "executors and drivers that run at once, as this machine carries them; further jobs wait",
            jvms=jvms, cores=machine.cores, memory_mib=machine.memory_mib, setting="mesos.jvms",
        )  # fmt: skip
    return jvms


def _rights(config: Config, data_dir: Path) -> Rights:
    try:
        spark = local_spark_home(os.environ)
        java = Path(spark.java_home or "/", "bin/java")
        return rights_of(config, data_dir, [Path(spark.home, "bin/spark-submit"), java, Path(spark.python)])
    except OSError as error:
        raise ConfigError(str(error)) from error


def _launcher(config: Config, data_dir: Path, rights: Rights, host: str = "") -> Launcher:
    try:
        return Launcher(config, data_dir, host or _own_address(config.mesos.master), rights)
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


def _leave_embedded(embedded: Embedded, store: Store) -> None:
    """An idle embedded Mesos ends with the daemon; one with tasks stays, so that the jobs go on."""
    try:
        jobs, _ = store.unfinished()
    except StoreError as error:
        log.warning(
            "jobs may go on: the embedded mesos stays", why=str(error), embedded_mesos_pid=embedded.pid
        )
        return
    active = sum(job.state != "queued" for job in jobs)
    if not active:
        embedded.stop()
        return
    log.warning(
        "jobs go on; `stoker up` takes them up again",
        jobs=active,
        embedded_mesos_pid=embedded.pid,
    )


@contextmanager
def _listen(config: Config) -> Iterator[socket.socket]:
    host, port = config.address
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        family, kind, protocol, _, address = found[0]
        # asyncio turns Nagle's algorithm off, which costs 40 ms an answer, only where the protocol is named.
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"listen: {config.listen}: {error.strerror or error}") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(512)
        except OSError as error:
            raise ConfigError(
                f"listen: {config.listen}: {error.strerror}; "
                "another stoker may be running there, or choose another port with --set listen=HOST:PORT"
            ) from error
        yield listener


def _token(config: Config) -> str | None:
    if config.token_file:
        return _read_secret(config.token_file, "token_file")
    host, _ = config.address
    if host != "localhost" and not _is_loopback(host):
        raise ConfigError(
            f"listen: {config.listen}: whoever may submit may run code here, so an address other than "
            "loopback needs token_file, a file with the token that clients must send"
        )
    return None


def _mesos_secret(config: Config) -> str | None:
    file = config.mesos.secret_file
    return None if file is None else _read_secret(file, "mesos.secret_file")


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


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _read_secret(name: str, key: str) -> str:
    try:
        return read_secret(Path(name))
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def _data_dir(config: Config) -> Path:
    data_dir = Path(config.data_dir).expanduser().absolute()
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"data_dir: {data_dir}: {error.strerror}") from error
    if not os.access(data_dir, os.W_OK):
        raise ConfigError(f"data_dir: {data_dir}: is not writable")
    return data_dir


def _own_address(master: str) -> str:
    """The address of this machine as the master's side sees it; nothing is sent to find it out."""
    if master.startswith(("zk://", "zoo://")):
        master = master.partition("://")[2].partition("/")[0].split(",")[0].rpartition("@")[2]
    host, _, port = master.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host or master, int(port) if port.isdigit() else 5050))
        except OSError:
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
        return address


def _url(config: Config, listener: socket.socket) -> str:
    """Where clients reach this daemon."""
    if config.leader.url:
        return config.leader.url
    host, port = config.address[0], listener.getsockname()[1]
    if host in ("0.0.0.0", "::"):  # noqa: S104  # asked for, not listened on
        host = socket.gethostname()
    scheme = "http" if config.tls is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _say_hello(listener: socket.socket, config: Config, token: str | None, data_dir: Path) -> None:
    log.info("listening", url=_url(config, listener), data_dir=str(data_dir), policy=config.policy.name)
    if token is None:
        log.warning("no token_file: every user of this machine may submit jobs, and so run code as you")
    else:
        log.info("clients need the token of token_file; whoever has it may run code here")
    host, _ = config.address
    if config.tls is None and host != "localhost" and not _is_loopback(host):
        log.warning("without tls the token and all that is asked can be read on the network", listen=host)
