"""Workload files as frozen types; `profiles.workloads.generators` generates jobs from them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from conf.auto_bounds import auto_bounds
from conf.defaults import DEFAULT_QUEUE
from conf.schema import Name, Strict
from conf.schema.fields import Priority

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _in_order(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        raise ValueError("should be [lowest, highest]")
    return bounds


Whole = Annotated[int, Field(ge=1, le=100_000)]
Between = Annotated[tuple[Whole, Whole], Field(strict=False), AfterValidator(_in_order)]


class Poisson(Strict):
    """Jobs arrive independently of each other, so many an hour on average."""

    kind: Literal["poisson"]
    """Kind of the arrivals."""
    jobs_per_hour: Positive
    """On average."""


class Facebook(Strict):
    """Jobs arrive as in a window of the SWIM Facebook trace."""

    kind: Literal["facebook"]
    """Kind of the arrivals."""
    window: Literal["normal", "burst", "day"]
    """An hour of few jobs, ten minutes of many, or all day."""
    path: str = "../shared/traces/facebook-swim/FB-2009_samples_24_times_1hr_0.tsv"
    """Path of the trace; from the current folder, or the project's."""


class Alibaba(Strict):
    """Tasks of the Alibaba 2023 trace as jobs of one executor, with its arrivals, requests and durations."""

    path: str = "../shared/traces/alibaba-gpu-2023/openb_pod_list_default.csv"
    """Path of the trace; from the current folder, or the project's."""
    #: How many of the first tasks are left out; most of these were there before the trace began.
    skip: Annotated[int, Field(ge=0)] = 0
    #: Arrivals and durations are divided by this.
    speedup: Positive = 1.0
    #: Whether a task asks for the GPUs that it had; then only clusters with `resources: {gpus: ...}` run it.
    gpus: bool = False


class RecordedArrivals(Strict):
    """Jobs like those that were recorded: each is one of a workload file, the gaps between them too."""

    #: A .csv or .parquet file, such as `stoker profile ingest` writes.
    path: str
    #: Gaps between arrivals are divided by this.
    speedup: Positive = 1.0


class Deadlines(Strict):
    """Deadlines of jobs: so many times their duration after their submission."""

    #: Between which numbers of times that is, drawn uniformly; less than 1 nobody can meet.
    slack: Annotated[tuple[Positive, Positive], Field(strict=False), AfterValidator(_in_order)]
    #: How many of all jobs have one.
    share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0


class Mix(Strict):
    """Kinds of jobs: sizes are drawn uniformly between bounds, the rest by weight."""

    types: Annotated[Mapping[Name, Weight], Field(min_length=1)] = {
        "wordcount": 1.0,
        "pagerank": 1.0,
        "sort": 1.0,
    }
    """Types of jobs, by weight."""
    cpus: Between = (1, 6)
    """Cores of an executor, lowest and highest."""
    memory_gib: Between = (1, 10)
    """Memory of an executor, lowest and highest."""
    executors: Between = (1, 8)
    """Executors of a job, lowest and highest."""
    profiles: str = "profiles/data/paper.yaml"
    """Profiles of the types: their durations and placement preferences."""
    #: Whose jobs they are and in which queues, by weight too. Where none is named: nobody's, the default one.
    owners: Mapping[Name, Weight] = {}
    queues: Mapping[Name, Weight] = {}
    """Queues of the jobs, by weight."""
    #: How they stand beside others, by weight too; where none is named, as their queues.
    priorities: Mapping[Annotated[Priority, Field(strict=False)], Weight] = {}
    deadlines: Deadlines | None = None
    auto: Mapping[Literal["executors", "cpus", "memory"], str] = {}
    """Sizes left to Stoker, with a text as in a job file: `{executors: auto:2-16, cpus: auto}`. The jobs are
    the same ones as without it, and only their sizes are chosen when they arrive."""

    @field_validator("auto")
    @classmethod
    def _bounds(cls, texts: Mapping[Any, str]) -> Mapping[Any, str]:
        for name, text in texts.items():
            auto_bounds(name, text)
        return texts

    @model_validator(mode="after")
    def _some_weight(self) -> "Mix":
        for key in ("types", "owners", "queues", "priorities"):
            weights = getattr(self, key)
            if weights and not any(weights.values()):
                raise ValueError(f"{key}: one of the weights should be more than 0")
        return self


class User(Strict):
    """A user, or `count` users alike, called ann-1, ann-2, ...: rates and kinds of their jobs.

    One of four fields gives the rate; `share` where the arrivals of all are given, one of the others where
    not.
    """

    queue: Name = DEFAULT_QUEUE
    """Queue of this user's jobs."""
    count: Whole = 1
    """Number of identical users."""
    #: Of the arrivals of all, beside the shares of the others, for each of those alike; 1 if nothing is said.
    share: Positive | None = None
    #: As many jobs an hour on average, each independent of the others.
    jobs_per_hour: Positive | None = None
    #: As many jobs an hour as keep so many cores busy on average, when they run as they are expected to.
    cores: Positive | None = None
    #: So many jobs, all of them at the moment `after`.
    at_once: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    #: Seconds before the first of them may come.
    after: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    #: What the jobs are; null: as the workload says.
    mix: Mix | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "User":
        if len(self.ways) > 1:
            raise ValueError(f"should have one of {', '.join(_WAYS)}, found {' and '.join(self.ways)}")
        if self.mix and (self.mix.owners or self.mix.queues):
            raise ValueError(
                "mix: owners and queues: leave them out; the jobs are this user's, in the user's queue"
            )
        return self

    @property
    def ways(self) -> tuple[str, ...]:
        """Fields set for the rate of its jobs."""
        return tuple(way for way in _WAYS if getattr(self, way) is not None)


_WAYS = ("share", "jobs_per_hour", "cores", "at_once")


class WorkloadSpec(Strict):
    """A workload file: number, arrivals and kinds of jobs; or the tasks of a trace.

    With `users`, each job belongs to one of them: by their shares where the arrivals are given, in a trace
    by a hash of the task's name; else each user's jobs arrive at that user's rate, and `jobs` is the number
    taken, the first.
    """

    jobs: Annotated[int, Field(ge=1, le=2_000_000)]
    """Number of jobs."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of all samples; `--seed` overrides it."""
    arrivals: Annotated[Poisson | Facebook, Field(discriminator="kind")] | None = None
    """Arrival times."""
    mix: Mix | None = None
    alibaba: Alibaba | None = None
    recorded: RecordedArrivals | None = None
    users: Mapping[Name, User] = {}
    """Owners of the jobs, by name."""

    @model_validator(mode="before")
    @classmethod
    def _one_source(cls, values: Any) -> Any:
        if isinstance(values, dict):
            sources = [name for name in ("arrivals", "alibaba", "recorded") if name in values]
            if len(sources) > 1 or not (sources or values.get("users")):
                raise ValueError("a workload has either arrivals (and a mix) or alibaba or recorded or users")
            if "mix" in values and sources not in ([], ["arrivals"]):
                raise ValueError(f"the jobs of {sources[0]} have sizes of their own: leave mix out")
        return values

    @model_validator(mode="after")
    def _users_that_go_with_it(self) -> "WorkloadSpec":
        given = self.arrivals or self.alibaba or self.recorded
        for name, user in self.users.items():
            if given and user.ways not in ((), ("share",)):
                raise ValueError(f"users: {name}: {user.ways[0]}: needs arrivals to take a share of")
            if not given and (not user.ways or user.share):
                raise ValueError(f"users: {name}: should have one of {', '.join(_WAYS[1:])}")
            if given and user.after:
                raise ValueError(f"users: {name}: after: needs arrivals to take a share of")
            if user.mix and not (self.arrivals or not given):
                raise ValueError(f"users: {name}: mix: the jobs of a trace have sizes of their own")
        if self.users and self.mix and (self.mix.owners or self.mix.queues):
            raise ValueError("mix: owners and queues: leave them out; users are named, with their queues")
        return self
