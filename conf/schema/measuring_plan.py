"""Schema of a plan of measurements. `profiles.measuring_plans` expands it into runs."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from conf.schema import Arguments, Cpus, Memory, Name, Seconds, Strict, Text

Mib = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Arrangement = Literal["spread", "mixed", "consolidated"]


class Grid(Strict):
    """Every combination of these values is measured."""

    #: By app of `profiles/apps`: MiB of input.
    apps: Annotated[Mapping[Name, Annotated[tuple[Mib, ...], Field(strict=False)]], Field(min_length=1)]
    executors: Annotated[
        tuple[Annotated[int, Field(ge=1, le=1000)], ...], Field(strict=False, min_length=1)
    ] = (2,)
    cpus: Annotated[tuple[Cpus, ...], Field(strict=False, min_length=1)] = (1.0,)
    memory: Annotated[tuple[Memory, ...], Field(strict=False, min_length=1)] = (1024,)
    placement: Annotated[tuple[Arrangement, ...], Field(strict=False, min_length=1)] = (
        "spread",
        "consolidated",
    )
    #: How many further copies of the job run on the same VMs at the same time.
    beside: Annotated[tuple[Annotated[int, Field(ge=0, le=100)], ...], Field(strict=False, min_length=1)] = (
        0,
    )
    repeats: Annotated[int, Field(ge=1, le=1000)] = 1
    #: Further arguments of the apps, such as [--partitions, 8].
    args: Arguments = ()


class MeasuringPlan(Strict):
    """A plan file: the jobs to measure, and the cluster to measure them on."""

    cluster: Text = "clusters/testbed.yaml"
    isolation: Literal["none", "vm"] = "vm"
    #: Cores of this machine for each cpu of a VM; null: the machine's cores over all cpus of the VMs.
    isolation_scale: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    #: Of a VM's network card, Mbit/s each way; null: 100 * isolation_scale.
    isolation_bandwidth: Annotated[float, Field(ge=0.1, le=100_000, allow_inf_nan=False)] | None = None
    #: In which order the runs of a repeat come.
    seed: Annotated[int, Field(ge=0)] = 0
    #: Settings of Spark that all jobs have.
    conf: Mapping[Name, Text] = {}
    #: Seconds after which a job is ended and counts as failed.
    timeout: Seconds = 600.0
    grids: Annotated[tuple[Grid, ...], Field(strict=False, min_length=1)]
