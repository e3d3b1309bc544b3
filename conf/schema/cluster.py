"""A cluster file: the VMs that there are, and those that come and go."""

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from conf.schema.fields import Cpus, Memory, Name, Price, Resources, Strict, Text, Time


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class VmGroup(Strict):
    """Equal VMs of one type; they are named `type-1`, `type-2`, ... unless a single one has a name."""

    type: Name
    """What profiles and tables call such a VM, and its name begins with."""
    cpus: Cpus
    memory: Memory
    price_per_hour: Price
    """Dollars."""
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How many there are."""
    name: Name | None = None
    """Of a single one, instead."""
    resources: Resources = Field(default={})


class Billing(Strict):
    """A cloud's charges for a VM, from opened to closed."""

    granularity: Time = 1.0
    """Whole units of that are charged; 0: by the moment."""
    minimum: Time = 60.0
    """So much is charged at least each time that one is opened."""


class Spot(Strict):
    """VMs that cost less, and that their cloud takes away again whenever it wants to."""

    price_per_hour: Price | None = None
    """What one costs; null: what the pool says."""
    history: Text | None = None
    """What one costs over time, instead: a CSV or YAML file of times and prices, which simulations play."""
    interruptions_per_hour: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]
    """How often one that is open is taken away, as is to be expected."""
    notice: Time = 120.0
    """How long before that its cloud says so; 0: it does not."""

    @model_validator(mode="after")
    def _has_one_price(self) -> "Spot":
        if self.price_per_hour is not None and self.history is not None:
            raise ValueError("price_per_hour: the history says what one costs; leave one of the two out")
        return self


class Pool(Strict):
    """VMs of one kind that are opened when they are needed and closed when they are not."""

    name: Name
    """What its VMs are called: `general-1`, `general-2`, ..."""
    type: Name
    """What profiles and tables call such a VM."""
    cpus: Cpus
    memory: Memory
    price_per_hour: Price | None = None
    """What one costs; needed unless `spot` says it."""
    spot: Spot | None = None
    """That they are spot VMs; null: nobody takes them away."""
    min: Annotated[int, Field(ge=0, le=10_000)] = 0
    """So many are always open."""
    max: Annotated[int, Field(ge=1, le=10_000)]
    """So many are open at most."""
    boot: Time = 60.0
    """From opening one until it can be used."""
    billing: Billing = Billing()
    """How a cloud charges for one."""
    resources: Resources = Field(default={})
    reserved_for: Annotated[tuple[Name, ...], BeforeValidator(_as_list), Field(strict=False)] = ()
    """Names among its resources: only jobs that ask for one of them use the pool; one may stand alone."""

    @model_validator(mode="after")
    def _is_reserved_for_what_it_has(self) -> "Pool":
        for name in self.reserved_for:
            if not self.resources.get(name):
                raise ValueError(f"reserved_for: its VMs have no {name}; name what stands in resources")
        return self

    @model_validator(mode="after")
    def _min_is_no_more_than_max(self) -> "Pool":
        if self.min > self.max:
            raise ValueError(f"min should be at most max, {self.max}, found {self.min}")
        if self.min and self.spot is not None:
            raise ValueError(f"min: no spot VM is always there; should be 0, found {self.min}")
        return self

    @model_validator(mode="after")
    def _has_a_price(self) -> "Pool":
        if self.price_per_hour is None and (
            self.spot is None or (self.spot.price_per_hour is None and self.spot.history is None)
        ):
            raise ValueError("price_per_hour is missing: the pool's, or one of `spot`")
        return self


class Cluster(Strict):
    """A cluster file: the VMs that there are."""

    vms: Annotated[tuple[VmGroup, ...], Field(strict=False)] = ()
    """VMs that are always there."""
    pools: Annotated[tuple[Pool, ...], Field(strict=False)] = ()
    """VMs that come and go, beside those that are always there."""

    @model_validator(mode="after")
    def _has_vms(self) -> "Cluster":
        if not self.vms and not self.pools:
            raise ValueError("a cluster should have vms, pools or both")
        return self
