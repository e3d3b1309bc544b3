"""The daemon's config file, section by section; `default.yaml` lists the defaults."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from conf.defaults import DEFAULT_SPARK, RESOURCE_WEIGHT
from conf.policy_text import RIGHT_FORM, policy_text, read_policy
from conf.schema.documented_model import DocumentedModel
from conf.schema.fields import (
    SPARK_VERSION,
    Name,
    Port,
    Price,
    Seconds,
    SparkName,
    Strict,
    Text,
    like,
    number_as_text,
)
from conf.schema.job import Driver
from conf.schema.provider import Provider
from conf.schema.sharing import QueueSpecs, SharingSpec
from conf.schema.telemetry import Telemetry
from conf.schema.users import UsersSection
from conf.schema.webhooks import Webhooks

_ZOOKEEPER = r"[^\s/,:]+:\d+(,[^\s/,:]+:\d+)*(/[^\s/]+)+"


class PolicyChoice(DocumentedModel):
    """Placement policy with its options: a text such as `greedy:beta=0.5`, or `name` and options as keys."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: Name = "ff"
    """Name of the policy; every other key is an option of it, and takes precedence over one in the text."""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        if not isinstance(given, str | Mapping | PolicyChoice):
            raise ValueError(RIGHT_FORM)
        keys = {"name": given} if isinstance(given, str) else given
        if isinstance(keys, PolicyChoice) or not isinstance(keys.get("name"), str):
            return given
        name, options = read_policy(keys["name"])
        return {**options, **keys, "name": name}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """The schema, which allows the text."""
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        handler.resolve_ref_schema(schema)["type"] = ["object", "string"]
        return schema

    @property
    def options(self) -> dict[str, Any]:
        """The policy's own options, for the policy to validate."""
        return dict(self.model_extra or {})

    @property
    def label(self) -> str:
        """The policy as a text, with its options."""
        return policy_text(self.name, self.options)


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
    """Roles under which the daemon gets offers."""
    principal: Name | None = None
    secret_file: Text | None = None
    user: Text | None = None
    gpus: bool = True
    secret_variables: bool = False
    framework_name: Name = "stoker"
    """Name of the daemon in the master's list."""
    failover_timeout: Seconds = 7 * 24 * 3600.0
    launch_timeout: Seconds = 30.0
    unreachable_timeout: Seconds = 60.0
    maintenance_margin: Annotated[float, Field(ge=0, le=30 * 24 * 3600, allow_inf_nan=False)] = 600.0
    boot_timeout: Annotated[float, Field(ge=1, le=24 * 3600, allow_inf_nan=False)] = 300.0

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
            BeforeValidator(number_as_text),
            AfterValidator(like(SPARK_VERSION, "should be a version such as 4.3")),
        ]
        | None
    ) = None
    """Its version; required where its name is not a version."""
    home: Text | None = None
    """Its folder on the agents, in the image, or below the sandbox; null: the fetched one."""
    java_home: Text | None = None
    """JAVA_HOME on the agents."""
    python: Text | None = None
    """Python on the agents."""
    uris: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """URIs that Mesos fetches into each sandbox, and unpacks."""
    image: Text | None = None
    """A container image that contains it."""

    @model_validator(mode="after")
    def _image_needs_home(self) -> "SparkVersion":
        if self.image is not None and self.home is None:
            raise ValueError("image needs home, the folder of Spark in it, such as /opt/spark")
        return self


class Spark(Strict):
    """The Sparks that are served beside those that were fetched, and which one runs jobs that say none."""

    default: SparkName = DEFAULT_SPARK
    versions: Mapping[SparkName, SparkVersion] = {}
    """Spark installations of your own, by the name that jobs use."""
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
                f'{", ".join(nameless)}: homes need names: for a Spark 3.5 write versions: {{"3.5": '
                f'{{{keys}}}}} and default: "3.5"'
            )
        if not isinstance(given, dict):
            return given
        return {key: value for key, value in given.items() if key not in SparkVersion.model_fields}

    @field_validator("versions")
    @classmethod
    def _of_a_version(cls, versions: Mapping[str, SparkVersion]) -> Mapping[str, SparkVersion]:
        for name, one in versions.items():
            if one.version is None and not re.fullmatch(SPARK_VERSION, name):
                raise ValueError(f"{name}: not a version such as 4.3, so it needs a key version")
        return versions


class Leader(Strict):
    """Several daemons on one store, with one leader: how it is found, and the fate of its drivers."""

    zookeeper: Annotated[
        Text | None,
        AfterValidator(
            lambda text: text if text is None else like(_ZOOKEEPER, "should be HOST:PORT,.../PATH")(text)
        ),
    ] = None
    url: Annotated[
        Text | None,
        AfterValidator(
            lambda text: (
                text if text is None else like(r"https?://[^\s/]+", "should be http://HOST:PORT")(text)
            )
        ),
    ] = None
    lost_drivers: Literal["fail", "requeue"] = "fail"
    lease: Annotated[float, Field(ge=1, le=300, allow_inf_nan=False)] = 5.0


class Tls(Strict):
    """The certificate of the HTTP API, with its chain, in PEM; null as key: it is in the same file."""

    cert: Annotated[Text, Field(min_length=1)]
    """The file of the certificate."""
    key: Annotated[Text, Field(min_length=1)] | None = None
    """The file of its key."""


class AuditSection(Strict):
    """Audit log of users' requests: maximum size of a file (MiB), and number of earlier files retained."""

    on: bool = True
    """Whether the audit log is written."""
    size: Annotated[int, Field(ge=1)] = 16
    earlier: Annotated[int, Field(ge=0, le=1000)] = 5


class Keep(Strict):
    """Idle policy of pool VMs; `seconds` are those of `timeout`."""

    name: Literal["none", "timeout", "break_even", "forecast", "planned"] = "break_even"
    """Idle policy: not at all, for a fixed time, by the cost of opening, by expected use, or by the policy's
    plan."""
    seconds: Annotated[float, Field(ge=0, le=30 * 24 * 3600, allow_inf_nan=False)] = 600.0
    """How long, with `timeout`."""


class Moves(Strict):
    """Executors that are moved so that VMs of pools close, where that saves more than it costs."""

    rule: Literal["none", "fitting"] = "none"
    """`fitting`: while no job waits, a VM is emptied where all of its executors fit on other VMs in use."""
    per_hour: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of executors that are moved within an hour; null: any number."""


def _a_day(text: str) -> str:
    """The day as 2026-01-01; ValueError for any other text."""
    try:
        if date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise ValueError(f"should be a day such as 2026-01-01, found {text!r}")


_Dollars = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class VmLimit(NamedTuple):
    """The most that VMs of a pool may cost in an hour, day or month (UTC); an empty name means all VMs."""

    pool: str
    per: Literal["hour", "day", "month"]
    dollars: float
    holds: bool = True
    """Whether VMs are held back where it is reached; else it is only reported."""
    used: bool = False
    """Whether open VMs get no new executors either; else none is opened."""


class PoolBudget(Strict):
    """Limits on the cost of VMs, used or not; null: any amount."""

    dollars_per_hour: _Dollars | None = None
    """Maximum price of all VMs that are open at once, dollars per hour."""
    dollars_per_day: _Dollars | None = None
    """Maximum cost on a day (UTC)."""
    dollars_per_month: _Dollars | None = None
    """Maximum cost in a calendar month (UTC)."""

    @property
    def any(self) -> bool:
        """Whether there is any limit."""
        return any(getattr(self, name) is not None for name in PoolBudget.model_fields)


class Budget(PoolBudget):
    """Limits on the cost of all VMs and of pools: beyond them no VM is opened or gets new executors."""

    per_day: _Dollars | None = None
    """The name of `dollars_per_day` in earlier versions: with it, a day over budget is only reported, unless
    `hold` is true; then no VM is opened, and open ones go on."""
    hold: bool | None = None
    """Whether limits by day and month hold VMs back; false: they are only reported. null: yes, but for
    `per_day`."""
    pools: Mapping[Name, PoolBudget] = {}
    """Limits of pools, by their names."""

    @model_validator(mode="after")
    def _has_limits(self) -> Self:
        if self.per_day is not None and self.dollars_per_day is not None:
            raise ValueError("per_day: is the old name of dollars_per_day; set one of them")
        for name, pool in self.pools.items():
            if not pool.any:
                raise ValueError(f"pools.{name}: should have a limit, such as dollars_per_day")
        if not (self.any or self.per_day or self.pools):
            raise ValueError("should have a limit, such as dollars_per_day")
        return self

    @property
    def limits(self) -> Iterator[VmLimit]:
        """All limits: those of all VMs first, and of each pool the shortest period first."""
        for pool, of in (("", self), *self.pools.items()):
            # `per_day` is of earlier versions: it stops openings alone, and only where that is asked.
            old = not pool and self.per_day is not None
            holds = self.hold is not False
            if of.dollars_per_hour is not None:
                yield VmLimit(pool, "hour", of.dollars_per_hour)
            day = self.per_day if old else of.dollars_per_day
            if day is not None:
                yield VmLimit(pool, "day", day, holds=bool(self.hold) if old else holds, used=not old)
            if of.dollars_per_month is not None:
                yield VmLimit(pool, "month", of.dollars_per_month, holds, used=True)

    @property
    def per_hour(self) -> dict[str, float]:
        """Limits per hour by pool; an empty name means all VMs."""
        return {limit.pool: limit.dollars for limit in self.limits if limit.per == "hour"}


_Day = Annotated[
    str,
    BeforeValidator(lambda value: value.isoformat() if isinstance(value, date) else value),  # as YAML has it
    AfterValidator(_a_day),
]


class CommitmentSpec(Strict):
    """VMs, or dollars per hour, that are paid whether used or not: a reservation, or a savings plan."""

    since: _Day
    """Its first day (UTC), such as 2026-01-01."""
    until: _Day
    """Its last day (UTC)."""
    pool: Name | Literal[""] = ""
    """The pool of the VMs that it covers; or else `type`."""
    type: Name | Literal[""] = ""
    """The type of the VMs that it covers, fixed ones and those of any pool."""
    vms: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Number of reserved VMs; or else `dollars_per_hour`."""
    price_per_hour: Price = 0.0
    """Price of each of them, paid in any case."""
    dollars_per_hour: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = 0.0
    """Dollars per hour that are paid in any case, for covered VMs at the discount."""
    discount: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Discount on the prices of VMs covered by `dollars_per_hour`: 0.3 for 30 %."""

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if self.until < self.since:
            raise ValueError(f"until: {self.until} is before its first day, since: {self.since}")
        if bool(self.pool) == bool(self.type):
            raise ValueError("should cover either a pool or a type")
        if bool(self.vms) == bool(self.dollars_per_hour):
            raise ValueError(
                "should have either vms, with price_per_hour, or dollars_per_hour, with discount"
            )
        wrong = "discount" if self.vms and self.discount else ""
        if wrong or (not self.vms and self.price_per_hour):
            raise ValueError(f"{wrong or 'price_per_hour'}: belongs to the other kind of commitment")
        return self


class SizesSection(Strict):
    """Choice of sizes that jobs leave open; with a floor below 1, also for jobs that set no bounds."""

    floor: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    """The minimum share of its executors and cpus that every job gets; 1: all of them."""
    beta: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = RESOURCE_WEIGHT
    """Weight of a job's resources where no other job waits; 0: its time alone."""
    memory_retry: bool = True
    """Whether jobs that had too little memory may be started again once with more."""


class EventLogSection(Strict):
    """The log of events and commands: how large (MiB) a file may get, and how many earlier ones are kept."""

    size: Annotated[int, Field(ge=1)] = 64
    earlier: Annotated[int, Field(ge=0, le=1000)] = 3


class Http(Strict):
    """Limits of the HTTP API's clients: connections, bytes of headers, seconds."""

    connections: Annotated[int, Field(ge=1, le=100_000)] = 1000
    connections_per_address: Annotated[int, Field(ge=1)] = 100
    header_size: Annotated[int, Field(ge=1024, le=1 << 20)] = 32 * 1024
    header_timeout: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 10.0
    idle_timeout: Annotated[int, Field(ge=1, le=3600)] = 15


class Retention(Strict):
    """Limits on finished jobs that are retained: days, number of jobs, MiB; null: no limit. Days of bills."""

    age: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] | None = None
    jobs: Annotated[int, Field(ge=0)] | None = 100_000
    size: Annotated[int, Field(ge=0)] | None = None
    bill: Annotated[int, Field(ge=0, le=36_500)] = 0


class UploadsSection(Strict):
    """Files that clients send: MiB of one (0: none is taken) and of all, days that an unneeded one stays."""

    size: Annotated[int, Field(ge=0, le=1 << 20)] = 2048
    total: Annotated[int, Field(ge=0)] = 20_480
    age: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] = 7.0


def _of_ours(driver: Driver) -> Driver:
    """A check that a driver's place is one where the daemon can start it."""
    if driver.on == "client":
        raise ValueError("should be {on: host} or {on: cluster}, where the daemon can start drivers")
    return driver


class Config(Strict):
    """The daemon's config file."""

    listen: Text = "127.0.0.1:8642"
    token_file: Text | None = None
    users: UsersSection | None = None
    data_dir: Text = "~/.local/state/stoker"
    run_as: Annotated[Text | None, BeforeValidator(lambda user: str(user) if type(user) is int else user)] = (
        "auto"
    )
    allowed_paths: Annotated[tuple[Text, ...], Field(strict=False)] | None = None
    database: Annotated[Text | None, Field(repr=False)] = None
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
    provider: Provider | None = None
    keep: Keep = Keep()
    moves: Moves = Moves()
    budget: Budget | None = None
    commitments: Mapping[Name, CommitmentSpec] = {}
    webhooks: Webhooks = Field(default={})
    telemetry: Telemetry | None = None
    sizes: SizesSection = SizesSection()
    queues: QueueSpecs = Field(default={})
    sharing: SharingSpec | None = None
    spark: Spark = Spark()
    driver: Annotated[Driver, AfterValidator(_of_ours)] = Driver()
    leader: Leader = Leader()
    event_log: EventLogSection = EventLogSection()
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

    @property
    def vms_here(self) -> bool:
        """Whether VMs are processes on this machine, as the daemon runs a Mesos of its own."""
        return self.mesos.master == "embedded"
