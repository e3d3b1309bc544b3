"""What may stand in a workload file, as frozen types. What is made of them is in `profiles.generators`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from conf.schema import Name, Strict

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
    jobs_per_hour: Positive


class Facebook(Strict):
    """Jobs arrive as in a window of the SWIM Facebook trace."""

    kind: Literal["facebook"]
    window: Literal["normal", "burst", "day"]
    path: str = "../shared/traces/facebook-swim/FB-2009_samples_24_times_1hr_0.tsv"


class Alibaba(Strict):
    """Tasks of the Alibaba 2023 trace as jobs of one executor, with its arrivals, requests and durations."""

    path: str = "../shared/traces/alibaba-gpu-2023/openb_pod_list_default.csv"
    #: How many of the first tasks are left out; most of these were there before the trace began.
    skip: Annotated[int, Field(ge=0)] = 0
    #: Arrivals and durations are divided by this.
    speedup: Positive = 1.0


class Recorded(Strict):
    """Jobs like those that were recorded: each is one of a workload file, the gaps between them too."""

    #: A .csv or .parquet file, such as `stoker profile ingest` writes.
    path: str
    #: Gaps between arrivals are divided by this.
    speedup: Positive = 1.0


class Mix(Strict):
    """Which jobs there are: sizes are drawn uniformly between bounds, the rest by weight."""

    types: Annotated[Mapping[Name, Weight], Field(min_length=1)] = {
        "wordcount": 1.0,
        "pagerank": 1.0,
        "sort": 1.0,
    }
    cpus: Between = (1, 6)
    memory_gib: Between = (1, 10)
    executors: Between = (1, 8)
    profiles: str = "profiles/data/paper.yaml"
    #: Whose jobs they are and in which queues, by weight too. Where none is named: nobody's, the default one.
    owners: Mapping[Name, Weight] = {}
    queues: Mapping[Name, Weight] = {}

    @model_validator(mode="after")
    def _some_weight(self) -> "Mix":
        for key in ("types", "owners", "queues"):
            weights = getattr(self, key)
            if weights and not any(weights.values()):
                raise ValueError(f"{key}: one of the weights should be more than 0")
        return self


class WorkloadSpec(Strict):
    """A workload file: how many jobs, when they arrive and what they are; or the tasks of a trace."""

    jobs: Annotated[int, Field(ge=1, le=10_000_000)]
    seed: Annotated[int, Field(ge=0)] = 0
    arrivals: Annotated[Poisson | Facebook, Field(discriminator="kind")] | None = None
    mix: Mix | None = None
    alibaba: Alibaba | None = None
    recorded: Recorded | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_source(cls, values: Any) -> Any:
        if isinstance(values, dict):
            sources = [name for name in ("arrivals", "alibaba", "recorded") if name in values]
            if len(sources) != 1:
                raise ValueError("a workload has either arrivals (and a mix) or alibaba or recorded")
            if "mix" in values and sources != ["arrivals"]:
                raise ValueError(f"the jobs of {sources[0]} bring their sizes along: no mix beside it")
        return values
