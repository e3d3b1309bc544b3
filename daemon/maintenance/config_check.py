"""Whether a daemon could start with a config: all that can be found out without starting one.

The files that it names are read, its policies made, its servers asked whether they are there. Nothing is
changed, and no daemon that runs is disturbed.
"""

import os
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from stoker.bounded_read import read_secret

from agents.registry import PolicyError, create, is_ours
from agents.trial import tried
from conf.loader import ConfigError, find
from conf.schema import Config, PolicyChoice, Telemetry, Webhook, promised
from conf.schema.sharing import paths
from daemon.auth.users_file import read_users, users_path
from daemon.core.tls import Certificate
from daemon.disk.run_as import own_rights
from daemon.maintenance.user_checks import cannot_run, doubtful_proxies, lacks_admin
from daemon.notifications.otel_collector import target_of
from daemon.notifications.signed_post import secret_of, trusted
from daemon.substrate.provider_setup import check_pools, foreign_provider, places_of, too_low
from environment.clusters.cluster_files import cluster_file, load_cluster
from environment.resources import told, total
from environment.types import Vm
from framework.host.request_guard import is_loopback
from framework.host.unix_users import find_account
from framework.providers.factory import doubt_of
from framework.spark import SparkHomes
from profiles.job_profile import load_profiles

#: Seconds that a server may take to answer.
_PATIENCE = 3
#: The port of collectors that speak gRPC, which Stoker does not.
_GRPC = 4317

Verdict = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """A finding about a key of the config: `error` stops a daemon from working as configured."""

    key: str
    verdict: Verdict
    what: str


class _WrongError(Exception):
    """Something that a daemon could not work with."""


class _DoubtError(Exception):
    """Something that a daemon may be able to work with."""


def check(config: Config, folder: Path) -> Iterator[ConfigFinding]:
    """Look at everything that the config of this folder names; OSError never comes out of it."""
    homes = SparkHomes(config.spark, os.environ)
    checks: list[tuple[str, Callable[[], str]]] = [
        ("listen", lambda: _listen(config)),
        ("token_file", lambda: _token(config)),
        ("users", lambda: _users(config, folder)),
        ("tls", lambda: _tls(config)),
        ("run_as", lambda: _run_as(config)),
        ("allowed_paths", lambda: _allowed(config)),
        ("data_dir", lambda: _data_dir(Path(config.data_dir).expanduser().absolute())),
        ("database", lambda: _database(config)),
        ("profiles", lambda: _profiles(config, folder)),
        ("policy", lambda: _policy(config.policy, config.decision_timeout)),
        ("fallback", lambda: _policy(config.fallback, config.decision_timeout)),
        ("shadow", lambda: _policy(config.shadow, config.decision_timeout)),
        ("mesos.cluster", lambda: _cluster(config, folder)),
        ("mesos.master", lambda: _master(config)),
        ("mesos.secret_file", lambda: _secret(config.mesos.secret_file)),
        ("provider", lambda: _provider(config, folder)),
        ("budget", lambda: _budget(config, folder)),
        ("commitments", lambda: _commitments(config, folder)),
        *((f"webhooks.{name}", partial(_webhook, name, one)) for name, one in config.webhooks.items()),
        ("telemetry", lambda: _telemetry(config.telemetry)),
        ("queues", lambda: _queues(config, folder)),
        ("sharing", lambda: _sharing(config)),
        ("spark.default", lambda: _default_spark(homes)),
        *((f"spark.versions.{name}", partial(_spark, homes, name)) for name in homes.names()),
        ("leader.zookeeper", lambda: _zookeeper(config)),
    ]
    for key, look in checks:
        try:
            yield ConfigFinding(key, "ok", look())
        except _DoubtError as doubt:
            yield ConfigFinding(key, "warning", str(doubt))
        except (_WrongError, ConfigError, PolicyError) as error:
            yield ConfigFinding(key, "error", str(error))
        except OSError as error:
            yield ConfigFinding(
                key, "error", f"{error.filename or ''}: {error.strerror or error}".removeprefix(": ")
            )


def _listen(config: Config) -> str:
    host, port = config.address
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise _WrongError(f"{config.listen}: {error.strerror or error}") from None
    if config.token_file is None and config.users is None and not ip_address(address[0]).is_loopback:
        raise _WrongError(f"{config.listen}: an address other than loopback needs users or token_file")
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise _DoubtError(f"{config.listen}: {error.strerror}; is a daemon running there?") from None
    return f"{config.listen} is free"


def _token(config: Config) -> str:
    if config.token_file is None and config.users is not None:
        return "none: users have tokens of their own"
    if config.token_file is None:
        raise _DoubtError(
            "none: every user of this machine may submit jobs, and so run code as the daemon's user"
        )
    return _secret(config.token_file)


def _secret(name: str | None) -> str:
    """A secret is in a file that only its owner can read."""
    if name is None:
        return "none"
    path = Path(name)
    try:
        read_secret(path)
    except ValueError as error:
        raise _WrongError(str(error)) from None
    path = path.expanduser()
    status = path.stat()
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise _WrongError(f"{path}: users other than its owner may use it; chmod 600 {path}")
    if status.st_uid not in (os.geteuid(), 0):
        raise _DoubtError(f"{path}: belongs to another user")
    return f"{path}: is private"


def _users(config: Config, folder: Path) -> str:
    """Users of the config and its file; `stoker doctor` checks those of the store."""
    section = config.users
    if section is None:
        return "none: every admitted client may do everything"
    users = [] if section.file is None else read_users(users_path(section.file, folder)).values()
    here = config.vms_here or config.driver.on == "host"
    rights = own_rights(config, Path(config.data_dir).expanduser().absolute())
    doubts = [*cannot_run(users, rights, here=here), doubtful_proxies(section)]
    if section.file is not None:
        doubts.append(lacks_admin(section, config.token_file, users))
    if any(doubts):
        raise _DoubtError("; ".join(filter(None, doubts)))
    of_file = "" if section.file is None else f", and {len(users)} of {section.file}"
    return f"those of the store{of_file}; they see {section.see} jobs"


def _tls(config: Config) -> str:
    if config.tls is None:
        return "none"
    Certificate(config.tls)
    return f"{config.tls.cert}: can be used. Its key: {_secret(config.tls.key or config.tls.cert)}"


def _run_as(config: Config) -> str:
    name = config.run_as
    if name is None or name == "auto":
        return name or "the daemon's own user"
    try:
        account = find_account(name)
    except KeyError:
        raise _WrongError(f"{name}: there is no such user") from None
    if os.geteuid() not in (0, account.uid):
        raise _WrongError(f"{name}: only a daemon that root runs can run jobs as another user")
    return f"{name}: is there"


def _allowed(config: Config) -> str:
    missing = [name for name in config.allowed_paths or () if not Path(name).expanduser().is_dir()]
    if missing:
        raise _DoubtError(f"no folders: {', '.join(missing)}")
    return "none" if config.allowed_paths is None else "are there"


def _data_dir(folder: Path) -> str:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise _WrongError(f"{folder}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise _WrongError(f"{folder}: {there} is not writable")
    if there != folder:
        return f"{folder}: will be made"
    # Unix users of jobs may pass through to their own folders (daemon.disk.run_as); all else is the daemon's.
    if folder.stat().st_mode & (stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH):
        raise _DoubtError(f"{folder}: users other than its owner may read it; chmod 700 {folder}")
    return f"{folder}: is there"


def _database(config: Config) -> str:
    if config.database is None:
        return "SQLite in data_dir"
    try:
        url = make_url(config.database)
        shown = url.render_as_string(hide_password=True)
        if url.get_backend_name() == "sqlite":
            return f"{shown}: {_data_dir(Path(str(url.database)).absolute().parent)}"
        engine = sa.create_engine(url, connect_args={"connect_timeout": _PATIENCE}, poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.execute(sa.text("SELECT 1"))
    except sa.exc.DBAPIError as error:
        raise _WrongError(f"{shown}: {' '.join(str(error.orig).split())}") from None
    except (sa.exc.SQLAlchemyError, ImportError, ValueError) as error:
        raise _WrongError(f"no store is there: {' '.join(str(error).split())}") from None
    return f"{shown}: answers"


def _profiles(config: Config, folder: Path) -> str:
    found = load_profiles(str(find(config.profiles, folder)))
    return f"{config.profiles}: of {', '.join(found)}"


def _policy(policy: PolicyChoice | None, seconds: float) -> str:
    if policy is None:
        return "none"
    if is_ours(policy.name):
        create(policy.name, policy.options)
        return f"{policy.label} can be made"
    tried(policy.name, policy.options, seconds)
    return f"{policy.label} can be created, and decides on a test cluster"


def _cluster(config: Config, folder: Path) -> str:
    if not config.vms_here and config.provider is None:
        return "not used"
    vms, places = load_cluster(cluster_file(config.mesos.cluster, folder)), places_of(config, folder)
    pools = f", {len(places)} of them in pools" if places else ""
    left_out = "; those outside pools are left out" if not config.vms_here else ""
    return f"{config.mesos.cluster}: {'1 VM' if len(vms) == 1 else f'{len(vms)} VMs'}{pools}{left_out}"


def _budget(config: Config, folder: Path) -> str:
    """The budget: its pools are there, and a day's is held against the cost of VMs that are always there."""
    check_pools(config, folder, "budget")
    if config.budget is None:
        return "none"
    if why := too_low(config, _vms(config, folder)):
        raise _DoubtError(why)
    hold, per_day = config.budget.hold, config.budget.per_day or config.budget.dollars_per_day
    if per_day is None:
        return "limits per hour or month, or of pools"
    always = sum(vm.price_per_hour * 24 for vm in _vms(config, folder) if not vm.terms or vm.terms.always)
    if always > per_day:
        what = f"${per_day:,.2f} a day, but fixed VMs cost ${always:,.2f}"
        raise _DoubtError(what)
    holds = config.budget.per_day is None if hold is None else hold
    return f"${per_day:,.2f} a day (UTC){', then no VM is opened' if holds else ''}"


def _commitments(config: Config, folder: Path) -> str:
    """Reservations and savings plans: their pools and types are there."""
    check_pools(config, folder, "commitments")
    return ", ".join(config.commitments) or "none"


def _webhook(name: str, webhook: Webhook) -> str:
    """Its secret is there; nothing is sent to it."""
    secret_of(name, webhook)
    trusted(webhook.ca, f"webhooks.{name}.ca")
    secret = f"secret in {webhook.secret_env}"
    if webhook.secret_file is not None:
        secret = f"its secret: {_secret(webhook.secret_file)}"
    if webhook.url.startswith("http:"):
        raise _DoubtError(f"{webhook.place}: not encrypted: events can be read on their way; {secret}")
    return f"{webhook.place}; {secret}"


def _telemetry(telemetry: Telemetry | None) -> str:
    """The receiver of traces and its headers; sends nothing."""
    if telemetry is None:
        return "none"
    target = target_of(telemetry)
    private = f"; its headers: {_secret(telemetry.headers_file)}" if telemetry.headers_file else ""
    if urlsplit(target.url).port == _GRPC:
        raise _DoubtError(f"{target.place}: is the port of OTLP over gRPC; that over HTTP has 4318{private}")
    if target.headers and target.url.startswith("http:"):
        raise _DoubtError(f"{target.place}: not encrypted: its headers can be read on the network{private}")
    return f"traces of jobs go to {target.place}{private}"


def _queues(config: Config, folder: Path) -> str:
    """Guarantees to queues, against the cluster's capacity and the order that would grant them."""
    if not config.queues:
        return "none: jobs may name any queue"
    if config.vms_here:
        there = total(vm.resources for vm in _vms(config, folder))
        for name, amount in promised(config.queues).items():
            if amount > there.amount(name):
                what = f"{told(name, amount)} are guaranteed in all, and the cluster has"
                raise _DoubtError(f"{what} {told(name, there.amount(name))}")
    found = dict(paths(config.queues))
    shared = [path for path, queue in found.items() if queue.weight != 1 or queue.guaranteed.by_name]
    if shared and (config.sharing is None or "fair" not in config.sharing.order):
        what = "weights and guarantees have no effect unless fair is in sharing.order"
        raise _DoubtError(f"{shared[0]}: {what}")
    return f"{len(found)}, of which {sum(not queue.queues for queue in found.values())} accept jobs"


def _sharing(config: Config) -> str:
    if config.sharing is None:
        return "none: first come, first served"
    return f"by {', '.join(config.sharing.order)}"


def _vms(config: Config, folder: Path) -> Sequence[Vm]:
    """The VMs of the cluster file, as far as the daemon uses it."""
    if config.vms_here:
        return load_cluster(cluster_file(config.mesos.cluster, folder))
    return places_of(config, folder)


def _provider(config: Config, folder: Path) -> str:
    if not places_of(config, folder):
        if config.provider is None:
            return "none"
        raise _DoubtError(f"{config.provider.name}: {config.mesos.cluster} has no pools")
    options = config.provider
    if options is None or options.name == "embedded":
        return "embedded"
    foreign_provider(config, options, folder)
    host = urlsplit(options.url or config.leader.url or "").hostname or config.address[0]
    if host == "localhost" or is_loopback(host):
        why = f"this daemon listens on {host}, so VMs cannot notify it that they are taken away"
        raise _DoubtError(f"{options.name}: {why}; see provider.url")
    if doubt := doubt_of(options):
        raise _DoubtError(f"{options.name}: {doubt}")
    return f"{options.name}: can be asked"


def _master(config: Config) -> str:
    master, port = config.mesos.master, config.mesos.port
    if master != "embedded":
        return _answers(master.partition("://")[2].partition("/")[0].rpartition("@")[2] or master)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise _DoubtError(f"embedded, port {port}: {error.strerror}; is a daemon running?") from None
    return f"embedded, port {port} is free" if port else "embedded"


def _zookeeper(config: Config) -> str:
    servers = config.leader.zookeeper
    return "none" if servers is None else _answers(servers.partition("/")[0])


def _answers(servers: str) -> str:
    """Whether one of these, HOST:PORT by commas, takes a connection."""
    why = ""
    for server in servers.split(","):
        host, colon, port = server.rpartition(":")
        try:
            with socket.create_connection(
                (host if colon else server, int(port) if colon else 5050), _PATIENCE
            ):
                return f"{server}: answers"
        except ValueError:
            raise _WrongError(f"{server}: should be HOST:PORT") from None
        except OSError as error:
            why = f"{server}: {error.strerror or error}"
    raise _DoubtError(f"does not answer now: {why}")


def _default_spark(homes: SparkHomes) -> str:
    try:
        return f"{homes.named(None)}: is served"
    except ValueError as error:
        raise _WrongError(str(error)) from None


def _spark(homes: SparkHomes, name: str) -> str:
    """A Spark that is on the VMs alone does for drivers on the cluster."""
    try:
        here, there = homes.here(name), homes.there(name)
    except ValueError as error:
        raise _DoubtError(str(error)) from None
    found = f"Spark {here.version} in {here.home}, Java in {here.java_home}"
    if there.home != here.home:
        raise _DoubtError(f"{there.home}: is not on this machine, where drivers have {found}")
    return found
