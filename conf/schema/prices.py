"""A price list: the cost of VMs by the hour, for `stoker audit`."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, model_validator

from conf.schema.fields import Cpus, Memory, Name, Price, Resources, Strict, Text


class VmPrice(Strict):
    """A VM type and its price."""

    cpus: Cpus
    memory: Memory
    price_per_hour: Price
    """Dollars."""
    spot_price_per_hour: Price | None = None
    """As a spot VM; null: `spot_share` of its price."""
    resources: Resources = Field(default={})


class VmFamily(Strict):
    """VM types with sizes and prices that double together, as EC2's: large has 2 cpus, xlarge 4, ..."""

    memory: Memory
    """Of the size large."""
    price_per_hour: Price
    """Of the size large, dollars."""


class PriceList(Strict):
    """A price list for `stoker audit`."""

    source: Text = ""
    """Where the prices are from, and of when; reports show it."""
    types: Annotated[Mapping[Name, VmPrice], Field(strict=False)] = Field(default={})
    """VM types by name."""
    families: Annotated[Mapping[Name, VmFamily], Field(strict=False)] = Field(default={})
    """Families of VM types by name: `m5` has m5.large, m5.xlarge, m5.2xlarge, ..."""
    hosts: Annotated[Mapping[Text, Name], Field(strict=False)] = Field(default={})
    """VM types by names of hosts that executors ran on, with * and ?; the first that matches counts."""
    per_core_hour: Price | None = None
    """Price per core and hour of executors with an unknown VM type, dollars; null: an error."""
    per_gib_hour: Price = 0.0
    """Price per GiB and hour of their memory, dollars."""
    per_gpu_hour: Price = 0.0
    """Price per GPU and hour of theirs, dollars."""
    spot_share: Annotated[float, Field(gt=0, le=1)] = 0.4
    """Price of a spot VM, as a share of the price of the same VM, unless its type sets one."""
    commitment_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Price of a VM under a commitment, as a share of its price on demand; null: none is offered."""

    @model_validator(mode="after")
    def _has_prices(self) -> "PriceList":
        if not self.types and not self.families and self.per_core_hour is None:
            raise ValueError("a price list should have types, families or per_core_hour")
        for type_name in self.hosts.values():
            if self.type_named(type_name) is None:
                raise ValueError(f"hosts: {type_name} is in neither types nor families; add its price")
        return self

    def type_named(self, name: str) -> VmPrice | None:
        """A VM type by its name; None when the list has none of that name."""
        if name in self.types:
            return self.types[name]
        family, _, size = name.rpartition(".")
        found, doubled = self.families.get(family), _sizes().get(size)
        if found is None or doubled is None:
            return None
        memory, price = round(found.memory * doubled), found.price_per_hour * doubled
        return VmPrice(cpus=2.0 * doubled, memory=memory, price_per_hour=round(price, 6))


def _sizes() -> dict[str, float]:
    """EC2's sizes, as multiples of large."""
    each = {f"{n}xlarge": 2.0 * n for n in (2, 3, 4, 6, 8, 9, 10, 12, 16, 18, 24, 32, 48)}
    return {"medium": 0.5, "large": 1.0, "xlarge": 2.0, **each}
