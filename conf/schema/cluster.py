"""A cluster file: the VMs that there are, and those that come and go."""

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from conf.schema.fields import Cpus, Memory, Name, Price, Resources, Strict, Text, Time


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _as_file(value: object) -> object:
    return {"file": value} if isinstance(value, str) else value


class VmGroup(Strict):
    """Equal VMs of one type; they are named `type-1`, `type-2`, ... unless a single one has a name."""

    type: Name
    """The type of the VM in profiles and tables, and the start of its name."""
    cpus: Cpus
    memory: Memory
    price_per_hour: Price
    """Dollars."""
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of such VMs."""
    name: Name | None = None
    """The name of a single VM, instead of `count`."""
    resources: Resources = Field(default={})


class Billing(Strict):
    """A cloud's charges for a VM, from opened to closed."""

    granularity: Time = 1.0
    """Charges are rounded up to whole units of that; 0: no rounding."""
    minimum: Time = 60.0
    """The minimum charge for each opening."""


class Availability(Strict):
    """Recorded number of spot VMs over time, which simulations replay."""

    file: Text
    """A JSON file, beside the cluster file: `metadata` with `gap_seconds`, and `data`, a count each gap."""
    times: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of the pool's VMs that stand for each recorded one."""
    offset: Time | None = None
    """Time of the record at which a simulation begins; null: drawn by its seed."""


class Spot(Strict):
    """VMs that cost less, and that their cloud may take away at any time."""

    price_per_hour: Price | None = None
    """Price of one VM; null: the pool's."""
    history: Text | None = None
    """Prices over time, instead: a CSV or YAML file of times and prices, which simulations replay."""
    interruptions_per_hour: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]
    """Expected rate of interruptions of an open VM."""
    availability: Annotated[Availability | None, BeforeValidator(_as_file)] = None
    """Number of VMs over time, which simulations replay in place of that rate: a file, or settings of one."""
    notice: Time = 120.0
    """Time between the cloud's notice and the interruption; 0: no notice."""

    @model_validator(mode="after")
    def _has_one_price(self) -> "Spot":
        if self.price_per_hour is not None and self.history is not None:
            raise ValueError("price_per_hour: history already contains the prices; leave one of the two out")
        return self


class Pool(Strict):
    """VMs of one kind that are opened and closed as needed."""

    name: Name
    """The start of its VMs' names: `general-1`, `general-2`, ..."""
    type: Name
    """The type of its VMs in profiles and tables."""
    cpus: Cpus
    memory: Memory
    price_per_hour: Price | None = None
    """Price of one VM; required unless `spot` has one."""
    spot: Spot | None = None
    """Settings of spot VMs; null: VMs that are never interrupted."""
    min: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Number of VMs that are always open."""
    max: Annotated[int, Field(ge=1, le=10_000)]
    """Maximum number of open VMs."""
    boot: Time = 60.0
    """Time from opening a VM until it can be used."""
    billing: Billing = Billing()
    """The cloud's rules for charging a VM."""
    resources: Resources = Field(default={})
    reserved_for: Annotated[tuple[Name, ...], BeforeValidator(_as_list), Field(strict=False)] = ()
    """Names among its resources: only jobs that request one of them use the pool; a single name needs no
    list."""

    @model_validator(mode="after")
    def _is_reserved_for_what_it_has(self) -> "Pool":
        for name in self.reserved_for:
            if not self.resources.get(name):
                raise ValueError(f"reserved_for: its VMs have no {name}; name one of its resources")
        return self

    @model_validator(mode="after")
    def _min_is_no_more_than_max(self) -> "Pool":
        if self.min > self.max:
            raise ValueError(f"min should be at most max, {self.max}, found {self.min}")
        if self.min and self.spot is not None:
            raise ValueError(f"min: spot VMs cannot always be open; should be 0, found {self.min}")
        return self

    @model_validator(mode="after")
    def _has_a_price(self) -> "Pool":
        if self.price_per_hour is None and (
            self.spot is None or (self.spot.price_per_hour is None and self.spot.history is None)
        ):
            raise ValueError("price_per_hour is missing: set the pool's, or one of `spot`")
        return self


class Cluster(Strict):
    """A cluster file: the VMs."""

    vms: Annotated[tuple[VmGroup, ...], Field(strict=False)] = ()
    """VMs that are always open."""
    pools: Annotated[tuple[Pool, ...], Field(strict=False)] = ()
    """Pools of VMs that are opened on demand, beside the fixed ones."""

    @model_validator(mode="after")
    def _has_vms(self) -> "Cluster":
        if not self.vms and not self.pools:
            raise ValueError("a cluster should have vms, pools or both")
        return self
