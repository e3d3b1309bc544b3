"""What may stand in a config file, a cluster file and a job file, as frozen types.

The defaults are the ones documented in `default.yaml`. How a file is read is in `loader.py`.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from conf.assumptions import DEFAULT_QUEUE, DEFAULT_SPARK
from conf.characters import LONGEST_NAME, UNSEEN_IN_PLANE_0, unseen
from conf.units import RESOURCE_NAME, checked_resources, memory_mib, seconds


def _like(pattern: str, otherwise: str) -> Callable[[str], str]:
    """A check that a text matches; the error says in words what the pattern says."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(otherwise)
        return text

    return check


def _one_line(text: str) -> str:
    """A check that a reader sees all of a text, in the order in which it is written."""
    if found := unseen(text):
        raise ValueError(f"should be one line without control or invisible characters (here {found})")
    return text


def _numbers_as_texts(values: Any) -> Any:
    """In JSON, `"args": [10, "--fast"]` is natural; arguments are texts all the same."""
    if not isinstance(values, list | tuple):
        return values
    return [str(v) if isinstance(v, int | float) and not isinstance(v, bool) else v for v in values]


def _number_as_text(value: Any) -> Any:
    """In YAML, `spark: 4.3` is natural; a version is a text all the same."""
    return str(value) if type(value) in (int, float) else value


def _three_decimals(cpus: float) -> float:
    """A check that Mesos can keep this number of cpus as it is; what arithmetic left beyond it is dropped."""
    if cpus < 0.001:
        raise ValueError("should be at least 0.001: Mesos keeps three decimals of a cpu")
    kept = round(cpus, 3)
    if abs(cpus - kept) > 1e-9:
        raise ValueError(f"should have at most three decimals, such as {kept}: Mesos keeps no more of a cpu")
    return kept


# Half a surrogate pair, which JSON and YAML can spell, fits in no file, command line or answer.
_NO_NUL = r"[^\x00\ud800-\udfff]*"
_ZOOKEEPER = r"[^\s/,:]+:\d+(,[^\s/,:]+:\d+)*(/[^\s/]+)+"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"

Memory = Annotated[
    int,
    BeforeValidator(memory_mib),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^[1-9]\d{0,5}[kmgKMG]?$"},
            ],
            "description": "MiB, or an amount with its unit: 512m, 2g",
        },
        mode="validation",
    ),
]
Cpus = Annotated[
    float,
    Field(gt=0, le=1024, allow_inf_nan=False, description="Cores, with at most three decimals"),
    AfterValidator(_three_decimals),
]
#: A name, or nothing.
NameOrNone = Annotated[
    str,
    Field(max_length=LONGEST_NAME, json_schema_extra={"pattern": f"^[^{UNSEEN_IN_PLANE_0}]*$"}),
    AfterValidator(_one_line),
]
Name = Annotated[NameOrNone, Field(min_length=1)]
Resources = Annotated[
    Mapping[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]],
    Field(
        description="Whatever else agents offer, by the name that Mesos gives it: gpus, disk (MiB), ...",
        json_schema_extra={"propertyNames": {"pattern": f"^{RESOURCE_NAME}$"}},
    ),
    AfterValidator(checked_resources),
]
_SPARK_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_SPARK_VERSION = r"\d{1,3}\.\d{1,3}(\.\d{1,3})?"
SparkName = Annotated[
    str,
    BeforeValidator(_number_as_text),
    AfterValidator(_like(_SPARK_NAME, "should be a name of letters, digits, dots, _ and -, such as 4.3")),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "pattern": f"^{_SPARK_NAME}$"}, {"type": "number"}],
            "description": "By the name that the daemon's config gives it, such as 4.3",
        },
        mode="validation",
    ),
]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
#: Seconds, or a time with its unit.
Time = Annotated[
    float,
    BeforeValidator(seconds),
    Field(ge=0, le=30 * 86_400, allow_inf_nan=False),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": r"^\d+(\.\d+)? *(ms|s|m|min|h|d)?$"},
            ],
            "description": "Seconds, or a time with its unit: 90s, 2m, 1h",
        },
        mode="validation",
    ),
]
Port = Annotated[int, Field(ge=0, le=65535)]
Text = Annotated[
    str,
    Field(max_length=32_768, json_schema_extra={"pattern": r"^[^\x00]*$"}),
    AfterValidator(_like(_NO_NUL, "should be a text without NUL characters")),
]
Arguments = Annotated[tuple[Text, ...], Field(strict=False), BeforeValidator(_numbers_as_texts)]
Variable = Annotated[
    str,
    Field(json_schema_extra={"pattern": f"^{_VARIABLE}$"}),
    AfterValidator(_like(_VARIABLE, "should be a variable's name: letters, digits and _, no digit first")),
]


_ARCHIVE = r"[^,#\n\x00]+\.(tar|tar\.gz|tgz|zip|jar)(#[A-Za-z0-9_][A-Za-z0-9._-]*)?"
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_PACKAGE = rf"{_PART}:{_PART}:[A-Za-z0-9_\[(][A-Za-z0-9._+\[\]()-]*"
_REPOSITORY = r"(https?://[^\s,/]+(/[^\s,]*)?|file:///[^\s,]*)"
Archive = Annotated[
    Text,
    Field(json_schema_extra={"pattern": f"^{_ARCHIVE}$"}),
    AfterValidator(
        _like(
            _ARCHIVE,
            "should be a .tar, .tar.gz, .tgz, .zip or .jar, with #FOLDER behind it or not: env.tar.gz#env",
        )
    ),
]
Package = Annotated[
    Text,
    Field(max_length=500, json_schema_extra={"pattern": f"^{_PACKAGE}$"}),
    AfterValidator(
        _like(_PACKAGE, "should be group:artifact:version, such as org.postgresql:postgresql:42.7.4")
    ),
]
Repository = Annotated[
    Text,
    Field(max_length=2000, json_schema_extra={"pattern": f"^{_REPOSITORY}$"}),
    AfterValidator(
        _like(_REPOSITORY, "should be the URL of a repository: https://HOST/PATH or file:///PATH")
    ),
]


class Strict(BaseModel):
    """Frozen; a key that is not known is an error; a text is no number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Driver(Strict):
    """Where Spark drivers run: on the daemon's host, or on the cluster as a Mesos task of this size."""

    on: Literal["host", "cluster", "client"] = "host"
    """On the daemon's host, or on the cluster as a Mesos task; `client`: it is a process of its user's own,
    which asked for executors by `POST /v1/applications`."""
    cpus: Cpus = 1.0
    """Cores of a driver on the cluster."""
    memory: Memory = 1024
    """Memory of a driver on the cluster: MiB, or an amount with its unit, such as 512m."""


def _of_ours(driver: Driver) -> Driver:
    """A check that a driver's place is one where the daemon can start it."""
    if driver.on == "client":
        raise ValueError("should be {on: host} or {on: cluster}: that is where the daemon can start drivers")
    return driver


class DynamicExecutors(Strict):
    """How many executors a job may have whose driver asks for them while it runs: dynamic allocation."""

    max: Annotated[int, Field(ge=1, le=10_000)]
    """How many it may have at most, of each resource profile."""
    min: Annotated[int, Field(ge=0, le=10_000)] = 0
    """How many it has at least: what it is short of them, it gets before new jobs get theirs."""
    initial: Annotated[int | None, Field(ge=0, le=10_000)] = None
    """How many it begins with, if there is room, and no fewer than `min`; null: `min`, or else one."""

    @model_validator(mode="after")
    def _in_order(self) -> "DynamicExecutors":
        if not self.min <= self.begins_with <= self.max:
            raise ValueError(
                f"should have min <= initial <= max, found {self.min}, {self.begins_with}, {self.max}"
            )
        return self

    @property
    def begins_with(self) -> int:
        """How many it begins with."""
        return max(self.min, 1) if self.initial is None else self.initial


def _number_or_bounds(value: object) -> str:
    return "[bounds]" if isinstance(value, Mapping | DynamicExecutors) else "[number]"


#: A number of executors, or bounds of it; which is meant is told by its kind, so that errors are about that.
Executors = Annotated[
    Annotated[int, Field(ge=1, le=10_000), Tag("[number]")] | Annotated[DynamicExecutors, Tag("[bounds]")],
    Discriminator(_number_or_bounds),
]


class JobSpec(Strict):
    """A Spark job as a user submits it: a YAML file, command line flags, or the body of POST /v1/jobs."""

    app: Annotated[
        Text,
        Field(json_schema_extra={"pattern": rf"^([^{UNSEEN_IN_PLANE_0}]*\.(py|jar))?$"}),
        AfterValidator(_one_line),
    ]
    """The program: a Python file (.py) or a jar (.jar); empty for a driver of its user's, who has it."""
    name: Name | None = None
    """What to call it; else it is called after its app."""
    type: Name = "unknown"
    """What jobs of its kind are called: profiles and policies know jobs by it."""
    owner: NameOrNone = ""
    """Whose job it is, as whoever submits it says; nobody checks it. `stoker submit` says the login name."""
    queue: Name = DEFAULT_QUEUE
    """Which queue it belongs to."""
    executors: Executors = 1
    """How many executors it asks for; with bounds, its driver asks for them while it runs."""
    min_executors: Annotated[int | None, Field(ge=1)] = None
    """On no fewer executors it runs; null: on all of them only."""
    cpus: Cpus = 1.0
    """Cores of each executor, with at most three decimals."""
    memory: Memory = 1024
    """Memory of each executor, Spark's overhead included: MiB, or an amount with its unit, such as 2g."""
    resources: Resources = {}
    """Whatever else each executor takes, by the name that Mesos gives it: gpus, disk (MiB), ..."""
    args: Arguments = ()
    """The program's arguments."""
    main_class: Name | None = None
    """The class whose main method is the job; of jars only."""
    py_files: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """Python files and archives that it imports."""
    files: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """Files put into the folder of each executor."""
    jars: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """Jars on the class path."""
    archives: Annotated[tuple[Archive, ...], Field(strict=False)] = ()
    """Archives that are unpacked in the folders of driver and executors: `env.tar.gz#env` becomes `env`."""
    packages: Annotated[tuple[Package, ...], Field(strict=False)] = ()
    """Jars by their Maven coordinates, `group:artifact:version`, with all that they need."""
    repositories: Annotated[tuple[Repository, ...], Field(strict=False)] = ()
    """Where packages are looked for before the usual places: URLs of Maven repositories."""
    conf: Mapping[Name, Text] = {}
    """Properties of Spark."""
    env: Mapping[Variable, Text] = {}
    """Variables for driver and executors."""
    driver: Driver | None = None
    """Where its driver runs, if not where the daemon's config says."""
    spark: SparkName | None = None
    """Which Spark runs it, by its name in the daemon's config, such as 3.5; null: the default one."""
    retries: Annotated[int, Field(ge=0, le=1000)] = 0
    """How often its driver is started again after it has failed, on executors of its own each time."""
    max_runtime: Seconds | None = None
    """Seconds of running after which it is ended and has failed."""

    @model_validator(mode="after")
    def _has_an_app(self) -> "JobSpec":
        if self.driver is not None and self.driver.on == "client":
            if self.app:
                raise ValueError("app: a driver of its user's (driver.on: client) has its program itself")
            return self
        if self.app.endswith(".jar") and self.main_class is None:
            raise ValueError("a jar needs main_class, the class whose main method is the job")
        if not self.app.endswith((".jar", ".py")):
            raise ValueError("app should be a Python file (.py) or a jar (.jar)")
        return self

    @model_validator(mode="after")
    def _no_fewer_than_all(self) -> "JobSpec":
        if isinstance(self.executors, DynamicExecutors):
            if self.min_executors is not None:
                raise ValueError(
                    "min_executors goes with a number of executors; executors.min is such a bound"
                )
        elif self.min_executors is not None and self.min_executors > self.executors:
            raise ValueError(
                f"min_executors should be at most executors, {self.executors}, found {self.min_executors}"
            )
        return self

    @property
    def references(self) -> tuple[str, ...]:
        """All files that it names: paths, URIs and uploaded ones; of archives, with the folder behind a #."""
        return (self.app, *self.py_files, *self.files, *self.jars, *self.archives)

    @property
    def most_executors(self) -> int:
        """How many executors it has at most."""
        return self.executors.max if isinstance(self.executors, DynamicExecutors) else self.executors

    @property
    def fewest_executors(self) -> int | None:
        """On how many executors it begins at least; None: on all that it asks for."""
        return (
            max(self.executors.min, 1) if isinstance(self.executors, DynamicExecutors) else self.min_executors
        )

    @property
    def label(self) -> str:
        """The name to show: the given one, or the app's file name without its ending."""
        return self.name or PurePosixPath(self.app).stem or "application"


class VmGroup(Strict):
    """So many VMs of one type; they are named `type-1`, `type-2`, ... unless a single one has a name."""

    type: Name
    cpus: Cpus
    memory: Memory
    price_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    name: Name | None = None
    resources: Resources = {}


class Billing(Strict):
    """How a cloud charges for a VM, from opened to closed."""

    granularity: Time = 1.0
    """Whole units of that are charged; 0: by the moment."""
    minimum: Time = 60.0
    """So much is charged at least each time that one is opened."""


class Pool(Strict):
    """VMs of one kind that are opened when they are needed and closed when they are not."""

    name: Name
    type: Name
    cpus: Cpus
    memory: Memory
    price_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    min: Annotated[int, Field(ge=0, le=10_000)] = 0
    """So many are always open."""
    max: Annotated[int, Field(ge=1, le=10_000)]
    boot: Time = 60.0
    """From opening one until it can be used."""
    billing: Billing = Billing()
    resources: Resources = {}

    @model_validator(mode="after")
    def _min_is_no_more_than_max(self) -> "Pool":
        if self.min > self.max:
            raise ValueError(f"min should be at most max, {self.max}, found {self.min}")
        return self


class Cluster(Strict):
    """A cluster file: the VMs that there are."""

    vms: Annotated[tuple[VmGroup, ...], Field(strict=False)] = ()
    pools: Annotated[tuple[Pool, ...], Field(strict=False)] = ()
    """VMs that come and go, beside those that are always there."""

    @model_validator(mode="after")
    def _has_vms(self) -> "Cluster":
        if not self.vms and not self.pools:
            raise ValueError("a cluster should have vms, pools or both")
        return self


class PolicyChoice(BaseModel):
    """Who decides: `name`, and whatever options that policy takes."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, use_attribute_docstrings=True)

    name: Name = "ff"
    """Which policy; every other key is an option of it."""

    @property
    def options(self) -> dict[str, Any]:
        """The policy's own options, for the policy to validate."""
        return dict(self.model_extra or {})

    @property
    def label(self) -> str:
        """Name and options, to tell policies apart."""
        options = ", ".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.name} ({options})" if options else self.name


class Mesos(Strict):
    """The Mesos cluster: `embedded` starts one on this machine, else `host:port` or `zk://...`."""

    master: Name = "embedded"
    cluster: Text = "clusters/paper.yaml"
    port: Port = 5050
    isolation: Literal["none", "vm"] = "none"
    isolation_scale: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    isolation_bandwidth: Annotated[float, Field(ge=0.1, le=100_000, allow_inf_nan=False)] | None = None
    isolation_delay: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)] = 0.0
    jvms: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    roles: Annotated[tuple[Name, ...], Field(strict=False, min_length=1)] = ("stoker",)
    principal: Name | None = None
    secret_file: Text | None = None
    user: Text | None = None
    gpus: bool = True
    secret_variables: bool = False
    framework_name: Name = "stoker"
    failover_timeout: Seconds = 7 * 24 * 3600.0
    launch_timeout: Seconds = 30.0
    unreachable_timeout: Seconds = 60.0
    maintenance_margin: Annotated[float, Field(ge=0, le=30 * 24 * 3600, allow_inf_nan=False)] = 600.0

    @model_validator(mode="after")
    def _secret_needs_principal(self) -> "Mesos":
        if (self.principal is None) != (self.secret_file is None):
            raise ValueError("principal and secret_file go together")
        return self


class SparkVersion(Strict):
    """One Spark: where it, its Java and its Python are on the agents; empty: where they are here."""

    version: (
        Annotated[
            str,
            BeforeValidator(_number_as_text),
            AfterValidator(_like(_SPARK_VERSION, "should be a version such as 4.3")),
        ]
        | None
    ) = None
    home: Text | None = None
    java_home: Text | None = None
    python: Text | None = None
    uris: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    image: Text | None = None

    @model_validator(mode="after")
    def _image_needs_home(self) -> "SparkVersion":
        if self.image is not None and self.home is None:
            raise ValueError("image needs home, where Spark is in it, such as /opt/spark")
        return self


class Spark(Strict):
    """The Sparks that are served beside those that were fetched, and which one runs jobs that say none."""

    default: SparkName = DEFAULT_SPARK
    versions: Mapping[SparkName, SparkVersion] = {}
    folder: Text | None = None
    driver_host: Text | None = None
    connect_timeout: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 120.0
    driver_timeout: Annotated[float, Field(ge=10, le=86_400, allow_inf_nan=False)] = 30.0

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        """A home without a name is of a config that knew but one Spark."""
        nameless = [key for key in SparkVersion.model_fields if isinstance(given, dict) and given.get(key)]
        if nameless:
            keys = ", ".join(f"{key}: {given[key]}" for key in nameless)
            raise ValueError(
                f"{', '.join(nameless)}: homes have names: for a Spark 3.5 write "
                f'versions: {{"3.5": {{{keys}}}}} and default: "3.5"'
            )
        if not isinstance(given, dict):
            return given
        return {key: value for key, value in given.items() if key not in SparkVersion.model_fields}

    @field_validator("versions")
    @classmethod
    def _of_a_version(cls, versions: Mapping[str, SparkVersion]) -> Mapping[str, SparkVersion]:
        for name, one in versions.items():
            if one.version is None and not re.fullmatch(_SPARK_VERSION, name):
                raise ValueError(f"{name}: is no version such as 4.3, so it should say its version")
        return versions


class Leader(Strict):
    """Several daemons on one store, of which one leads: how it is found, and what becomes of its drivers."""

    zookeeper: Annotated[
        Text | None,
        AfterValidator(
            lambda text: text if text is None else _like(_ZOOKEEPER, "should be HOST:PORT,.../PATH")(text)
        ),
    ] = None
    url: Annotated[
        Text | None,
        AfterValidator(
            lambda text: (
                text if text is None else _like(r"https?://[^\s/]+", "should be http://HOST:PORT")(text)
            )
        ),
    ] = None
    lost_drivers: Literal["fail", "requeue"] = "fail"
    lease: Annotated[float, Field(ge=1, le=300, allow_inf_nan=False)] = 5.0


class Tls(Strict):
    """The certificate of the HTTP API, with its chain, in PEM; null as key: it is in the same file."""

    cert: Annotated[Text, Field(min_length=1)]
    key: Annotated[Text, Field(min_length=1)] | None = None


class AuditSection(Strict):
    """The log of who asked for what: how large (MiB) a file may get, and how many earlier ones are kept."""

    on: bool = True
    size: Annotated[int, Field(ge=1)] = 16
    earlier: Annotated[int, Field(ge=0, le=1000)] = 5


class EventLog(Strict):
    """The log of events and commands: how large (MiB) a file may get, and how many earlier ones are kept."""

    size: Annotated[int, Field(ge=1)] = 64
    earlier: Annotated[int, Field(ge=0, le=1000)] = 3


class Http(Strict):
    """What clients of the HTTP API may take up: connections, bytes of headers, seconds."""

    connections: Annotated[int, Field(ge=1, le=100_000)] = 1000
    connections_per_address: Annotated[int, Field(ge=1)] = 100
    header_size: Annotated[int, Field(ge=1024, le=1 << 20)] = 32 * 1024
    header_timeout: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 10.0
    idle_timeout: Annotated[int, Field(ge=1, le=3600)] = 15


class Retention(Strict):
    """What is kept of jobs that are over: for so many days, so many of them, so many MiB; null: no limit."""

    age: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] | None = None
    jobs: Annotated[int, Field(ge=0)] | None = 100_000
    size: Annotated[int, Field(ge=0)] | None = None


class UploadsSection(Strict):
    """Files that clients send: MiB of one (0: none is taken) and of all, days that an unneeded one stays."""

    size: Annotated[int, Field(ge=0, le=1 << 20)] = 2048
    total: Annotated[int, Field(ge=0)] = 20_480
    age: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] = 7.0


class Config(Strict):
    """The daemon's config file."""

    listen: Text = "127.0.0.1:8642"
    token_file: Text | None = None
    data_dir: Text = "~/.local/state/stoker"
    run_as: Annotated[Text | None, BeforeValidator(lambda user: str(user) if type(user) is int else user)] = (
        "auto"
    )
    allowed_paths: Annotated[tuple[Text, ...], Field(strict=False)] | None = None
    database: Text | None = None
    profiles: Text = "profiles/data/paper.yaml"
    policy: PolicyChoice = PolicyChoice()
    policies_allowed: Annotated[tuple[Name, ...], Field(strict=False)] = ()
    fallback: PolicyChoice | None = PolicyChoice()
    shadow: PolicyChoice | None = None
    max_queued_jobs: Annotated[int, Field(ge=1)] = 100_000
    max_requests: Annotated[int, Field(ge=1)] = 200
    http: Http = Http()
    tls: Tls | None = None
    audit: AuditSection = AuditSection()
    log_rate: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] = 50.0
    decision_timeout: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 5.0
    mesos: Mesos = Mesos()
    spark: Spark = Spark()
    driver: Annotated[Driver, AfterValidator(_of_ours)] = Driver()
    leader: Leader = Leader()
    event_log: EventLog = EventLog()
    retention: Retention = Retention()
    uploads: UploadsSection = UploadsSection()

    @field_validator("listen")
    @classmethod
    def _host_and_port(cls, listen: str) -> str:
        host, _, port = listen.rpartition(":")
        if not host or host.strip() != host or not (port.isdecimal() and int(port[:6]) <= 65535):
            raise ValueError("should be HOST:PORT, such as 127.0.0.1:8642")
        return listen

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the HTTP API."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)
