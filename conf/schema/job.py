"""A job file: the fields of a job, which is the body of `POST /v1/jobs` as well."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)
from stoker.characters import UNSEEN_IN_PLANE_0

from conf.auto_bounds import AutoBounds, AutoText, auto_bounds, is_auto
from conf.defaults import DEFAULT_QUEUE
from conf.schema.fields import (
    Archives,
    Arguments,
    Cpus,
    Deadline,
    Files,
    GroupName,
    LabelName,
    LabelValue,
    Memory,
    Moment,
    Name,
    NameOrNone,
    Packages,
    Priority,
    Repositories,
    Resources,
    Seconds,
    Settings,
    SparkName,
    SpotUse,
    Strict,
    Text,
    Time,
    Variables,
    at_most,
    one_line,
)
from conf.util.backoff import Backoff


class Driver(Strict):
    """Location of Spark drivers: the daemon's host, or the cluster as a Mesos task of this size."""

    on: Literal["host", "cluster", "client"] = "host"
    """On the daemon's host, or on the cluster as a Mesos task; `client`: it is a user's own process, which
    requested executors by `POST /v1/applications`."""
    cpus: Cpus = 1.0
    """Cores of a driver on the cluster."""
    memory: Memory = 1024
    """Its memory, including Spark's overhead: MiB, or an amount with its unit, such as 1g; at least 896m."""
    spot: Literal["never", "allowed"] = "never"
    """Whether a driver on the cluster may be on a spot VM; it also may where its job sets `spot: only`."""


class DynamicExecutors(Strict):
    """Executor limits of a job with a driver that requests them while it runs: dynamic allocation."""

    max: Annotated[int, Field(ge=1, le=10_000)]
    """Maximum number of executors, of each resource profile."""
    min: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Minimum number of executors: executors missing to it are placed before those of new jobs."""
    initial: Annotated[int | None, Field(ge=0, le=10_000)] = None
    """Number of executors at the start, if there is room, and at least `min`; null: `min`, or else one."""

    @model_validator(mode="after")
    def _in_order(self) -> "DynamicExecutors":
        if not self.min <= self.begins_with <= self.max:
            raise ValueError(
                f"should have min <= initial <= max, found {self.min}, {self.begins_with}, {self.max}"
            )
        return self

    @property
    def begins_with(self) -> int:
        """Number of executors at first."""
        return max(self.min, 1) if self.initial is None else self.initial


class CpuBounds(Strict):
    """Bounds on an executor's cores: Stoker chooses between them by the type's curve and the waiting jobs."""

    min: Cpus
    """Minimum number of cores."""
    max: Cpus
    """Maximum number of cores, also used for a type without measurements."""

    @model_validator(mode="after")
    def _in_order(self) -> "CpuBounds":
        if self.min > self.max:
            raise ValueError(f"should have min <= max, found {self.min:g}, {self.max:g}")
        return self


def _number_or_bounds(value: object) -> str:
    return "[bounds]" if isinstance(value, Mapping | Strict) else "[number]"


def _number_bounds_or_auto(value: object) -> str:
    return "[auto]" if is_auto(value) else _number_or_bounds(value)


def _amount_or_auto(value: object) -> str:
    return "[auto]" if is_auto(value) else "[amount]"


def _auto(field: str, example: str) -> tuple[AfterValidator, WithJsonSchema, Tag]:
    """Annotations of a text that leaves this field to Stoker."""

    def check(text: str) -> str:
        auto_bounds(field, text)
        return text

    schema = {
        "type": "string",
        "pattern": "^auto(:.*-.*)?$",
        "description": f"auto, or with bounds {example}: Stoker chooses",
    }
    return AfterValidator(check), WithJsonSchema(schema, mode="validation"), Tag("[auto]")


#: Of one job.
_MOST_EXECUTORS = 10_000

#: A number of executors, bounds of it, or as many as are worth having by the curve of the job's type; which
#: is meant is told by its kind, so that errors are about that.
Executors = Annotated[
    Annotated[int, Field(ge=1, le=_MOST_EXECUTORS), Tag("[number]")]
    | Annotated[DynamicExecutors, Tag("[bounds]")]
    | Annotated[AutoText, *_auto("executors", "auto:2-16")],
    Discriminator(_number_bounds_or_auto),
]

#: The same of the cores of an executor.
CpusOrBounds = Annotated[
    Annotated[Cpus, Tag("[number]")]
    | Annotated[CpuBounds, Tag("[bounds]")]
    | Annotated[AutoText, *_auto("cpus", "auto:1-4")],
    Discriminator(_number_bounds_or_auto),
]

#: Its memory, or bounds of it.
MemoryOrAuto = Annotated[
    Annotated[Memory, Tag("[amount]")] | Annotated[AutoText, *_auto("memory", "auto:2g-16g")],
    Discriminator(_amount_or_auto),
]


class Dependency(Strict):
    """A predecessor of a job: another job, or all jobs of a group or an array."""

    job: Name | None = None
    """A job's id or name, or an array's id; a name means the latest job of that name and owner."""
    group: Name | None = None
    """A group of jobs of the same owner, by its name, or an array by its id."""
    when: Literal["success", "any"] = "success"
    """Whether it begins only if they finish, or after any end."""

    @model_validator(mode="after")
    def _one_of_both(self) -> "Dependency":
        if (self.job is None) == (self.group is None):
            raise ValueError("should name either a job or a group")
        return self


def _one_is_a_list(value: object) -> object:
    return [value] if isinstance(value, str | Mapping | Dependency) else value


def _name_or_more(value: object) -> str:
    return "[more]" if isinstance(value, Mapping | Strict) else "[name]"


#: The jobs at the end of which another may begin.
Dependencies = Annotated[
    tuple[
        Annotated[
            Annotated[Name, Tag("[name]")] | Annotated[Dependency, Tag("[more]")],
            Discriminator(_name_or_more),
        ],
        ...,
    ],
    Field(strict=False, max_length=1000),
    BeforeValidator(_one_is_a_list),
    at_most(1000),
]


class Retry(Strict):
    """Retries of a job after a failure of its own driver; failures caused by the cluster do not count."""

    times: Annotated[int, Field(ge=0, le=1000)]
    """How often."""
    pause: Annotated[Time, Field(gt=0)] = 1.0
    """Pause before the first retry."""
    factor: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = 2.0
    """Factor of the pause before each further retry."""
    most: Annotated[Time, Field(gt=0)] = 60.0
    """Maximum pause; no less than `pause`."""


#: Jobs of an array at most.
LARGEST_ARRAY = 1000


class JobSpec(Strict):
    """A Spark job as a user submits it: a YAML file, command line flags, or the body of POST /v1/jobs."""

    app: Annotated[
        Text,
        Field(json_schema_extra={"pattern": rf"^([^{UNSEEN_IN_PLANE_0}]*\.(py|jar))?$"}),
        AfterValidator(one_line),
    ]
    """The program: a Python file (.py) or a jar (.jar); empty for a user's own driver, which has it."""
    name: Name | None = None
    """Name of the job; by default that of its app."""
    type: Name = "unknown"
    """Name of the job's kind, used by profiles and policies."""
    owner: NameOrNone = ""
    """Owner of the job: the user who submits it, or one named by an operator; without users, any name."""
    queue: Name = DEFAULT_QUEUE
    """Queue of the job."""
    priority: Priority | None = None
    """Priority in an order by priority, higher first; null: its queue's."""
    deadline: Deadline | None = None
    """Latest end: seconds (or 2h) after its submission, or a time with its zone."""
    restartable: bool = True
    """Whether another job may preempt it, so that it restarts; its executors can be preempted either way."""
    executors: Executors = 1
    """Number of executors; with bounds, its driver requests them while it runs; auto, or auto:2-16: Stoker
    chooses by what is known of its type."""
    min_executors: Annotated[int | None, Field(ge=1, le=_MOST_EXECUTORS)] = None
    """Minimum number of executors to start with; null: all of them."""
    cpus: CpusOrBounds = 1.0
    """Cores of each executor, with at most three decimals; with bounds, Stoker chooses the number when it is
    placed; auto, or auto:1-4: when it is submitted, with all that is auto."""
    memory: MemoryOrAuto = 1024
    """Memory of each executor, including Spark's overhead: MiB, or an amount with its unit, such as 2g; auto,
    or auto:2g-16g: Stoker chooses."""
    resources: Resources = Field(default={})
    """Other resources of each executor, by Mesos' names: gpus, disk (MiB), ..."""
    args: Arguments = ()
    """The program's arguments."""
    main_class: Name | None = None
    """The class whose main method is the job; for jars only."""
    py_files: Files = ()
    """Python files and archives that it imports; a # renames one, as for files and jars."""
    files: Files = ()
    """Files put into the folder of each executor: `words.txt#list.txt` is named `list.txt` there."""
    jars: Files = ()
    """Jars on the class path."""
    archives: Archives = ()
    """Archives that are unpacked in the folders of driver and executors: `env.tar.gz#env` becomes `env`."""
    packages: Packages = ()
    """Jars by their Maven coordinates, `group:artifact:version`, with their dependencies."""
    repositories: Repositories = ()
    """Repositories searched for packages before the usual ones: URLs of Maven repositories."""
    conf: Settings = Field(default={})
    """Properties of Spark; numbers and truth values are written in Spark's form: 8, 0.5, true."""
    env: Variables = Field(default={})
    """Variables for driver and executors."""
    driver: Driver | None = None
    """Place of its driver; null: as in the daemon's config."""
    spark: SparkName | None = None
    """Its Spark version, by the name in the daemon's config, such as 3.5; null: the default."""
    spot: SpotUse = "allowed"
    """Whether its executors may be on spot VMs, which their cloud may take away, or only there."""
    retries: Annotated[int, Field(ge=0, le=1000)] = 0
    """How often its driver is started again after it has failed, with new executors each time."""
    retry: Retry | None = None
    """The same with pauses, instead of `retries`."""
    memory_retry: bool | None = None
    """Whether it restarts once with more memory after it had too little; null: if it has retries, or if its
    memory is auto and it is restartable."""
    after: Dependencies = ()
    """Jobs that it depends on: ids or names of jobs, {job: NAME, when: any}, {group: NAME}; it starts when
    all have finished, and fails when one of them does not."""
    start_at: Moment | None = None
    """Earliest start: a time with its zone, or a period after submission, such as in 2h."""
    group: GroupName = ""
    """Group: its jobs are waited for, shown and billed as one."""
    labels: Annotated[Mapping[LabelName, LabelValue], Field(max_length=32), at_most(32)] = {}
    """The user's own labels, to find jobs by: {team: a}."""
    count: Annotated[int | None, Field(ge=1, le=LARGEST_ARRAY)] = None
    """Number of jobs of an array. Each has its number from 0 in the variable STOKER_INDEX, and the count in
    STOKER_COUNT; {index} in an argument is replaced by the number."""
    at_most: Annotated[int | None, Field(ge=1)] = None
    """Maximum number of jobs of the array that run at once; null: all."""
    max_runtime: Seconds | None = None
    """Maximum seconds from its driver's first start; then it is ended and has failed. Retries do not restart
    the time."""
    max_cost: Annotated[float | None, Field(gt=0, le=1e9, allow_inf_nan=False)] = None
    """Maximum cost of its whole life, dollars, as `stoker job` shows it; of an array: of each job. From then
    on it gets no more executors, and is not started again."""
    at_max_cost: Literal["keep", "end"] = "keep"
    """Effect of max_cost on a running job: it keeps its executors to its end, or is ended and has failed."""

    @model_validator(mode="after")
    def _has_an_app(self) -> "JobSpec":
        if self.driver is not None and self.driver.on == "client":
            if self.app:
                raise ValueError("app: a user's own driver (driver.on: client) has its program itself")
            return self
        if self.app.endswith(".jar") and self.main_class is None:
            raise ValueError("a jar needs main_class, the class whose main method is the job")
        if not self.app.endswith((".jar", ".py")):
            raise ValueError("app should be a Python file (.py) or a jar (.jar)")
        return self

    @model_validator(mode="after")
    def _begins_later(self) -> "JobSpec":
        if self.at_max_cost != "keep" and self.max_cost is None:
            raise ValueError("at_max_cost goes with max_cost, the dollars that the job may cost")
        if self.at_most is not None and self.count is None:
            raise ValueError("at_most goes with count, which makes an array of jobs")
        if self.retry is not None and self.retries:
            raise ValueError("retry is the long form of retries: set one of them")
        if self.retry is not None and self.retry.most < self.retry.pause:
            raise ValueError(f"retry.most should be no less than retry.pause, {self.retry.pause:g} s")
        if self.driver is not None and self.driver.on == "client":
            said = {"after": self.after, "start_at": self.start_at, "count": self.count}
            if held := [name for name, value in said.items() if value]:
                raise ValueError(f"{held[0]}: a user's own driver (driver.on: client) runs already")
        return self

    @model_validator(mode="after")
    def _no_fewer_than_all(self) -> "JobSpec":
        if isinstance(self.executors, DynamicExecutors):
            if self.min_executors is not None:
                raise ValueError(
                    "min_executors needs a fixed number of executors; executors.min is such a bound"
                )
            if isinstance(self.cpus, CpuBounds):
                raise ValueError("cpus: bounds need a fixed number of executors, not bounds of them")
            if self.auto:
                raise ValueError(f"{next(iter(self.auto))}: auto goes without dynamic allocation")
        elif isinstance(self.executors, str):
            most = auto_bounds("executors", self.executors).most
            if most is not None and (self.min_executors or 0) > most:
                raise ValueError(
                    f"min_executors should be at most the maximum of executors, {most:g}, found "
                    f"{self.min_executors}"
                )
        elif (self.min_executors or 0) > self.executors:
            raise ValueError(
                f"min_executors should be at most executors, {self.executors}, found {self.min_executors}"
            )
        return self

    def member(self, index: int) -> "JobSpec":
        """The job with that number of the array; itself where it is none."""
        if self.count is None:
            return self
        env = {**self.env, "STOKER_INDEX": str(index), "STOKER_COUNT": str(self.count)}
        args = tuple(argument.replace("{index}", str(index)) for argument in self.args)
        return self.model_copy(update={"args": args, "env": env})

    @property
    def array_bytes(self) -> int:
        """Bytes of the specifications of an array's jobs, each of which is stored; 0 for a single job."""
        return 0 if self.count is None else self.count * len(self.model_dump_json())

    @property
    def most_retries(self) -> int:
        """Maximum number of restarts of its driver after failures."""
        return self.retries if self.retry is None else self.retry.times

    @property
    def pauses(self) -> Backoff | None:
        """Pauses before its retries; None: the usual ones."""
        return None if self.retry is None else Backoff(self.retry.pause, self.retry.factor, self.retry.most)

    @property
    def references(self) -> tuple[str, ...]:
        """All files that it names: paths, URIs and uploaded ones, with the names behind a #."""
        return (self.app, *self.py_files, *self.files, *self.jars, *self.archives)

    @property
    def auto(self) -> dict[str, AutoBounds]:
        """Bounds of those of executors, cpus and memory (MiB) that are left to Stoker, by name."""
        fields = {"executors": self.executors, "cpus": self.cpus, "memory": self.memory}
        return {name: auto_bounds(name, value) for name, value in fields.items() if isinstance(value, str)}

    @property
    def memory_mib(self) -> int:
        """Memory of each executor, MiB; ValueError while that is left to Stoker."""
        if isinstance(self.memory, str):
            raise ValueError("memory: auto must be replaced by an amount before it is used")
        return self.memory

    @property
    def most_executors(self) -> int:
        """Maximum number of executors; ValueError while that is left to Stoker."""
        if isinstance(self.executors, str):
            raise ValueError("executors: auto must be replaced by a number before it is used")
        return self.executors.max if isinstance(self.executors, DynamicExecutors) else self.executors

    @property
    def fewest_executors(self) -> int | None:
        """On how many executors it begins at least; None: on all that it asks for."""
        return (
            max(self.executors.min, 1) if isinstance(self.executors, DynamicExecutors) else self.min_executors
        )

    @property
    def most_cpus(self) -> float:
        """Maximum number of cores of an executor; ValueError while that is left to Stoker."""
        if isinstance(self.cpus, str):
            raise ValueError("cpus: auto must be replaced by a number before it is used")
        return self.cpus.max if isinstance(self.cpus, CpuBounds) else self.cpus

    @property
    def fewest_cpus(self) -> float | None:
        """Minimum number of cores of an executor; None: all that it asks for."""
        return self.cpus.min if isinstance(self.cpus, CpuBounds) else None

    @property
    def label(self) -> str:
        """The name to show: the given one, or the app's file name without its ending."""
        return self.name or PurePosixPath(self.app).stem or "application"
