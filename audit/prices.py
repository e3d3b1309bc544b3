"""Prices of executors: a share of a VM of known type, or by cores and memory."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from stoker.bounded_read import read_bounded

from audit.applications import Executor, LoggedApplication
from conf.errors import ReportedError
from conf.loader import SHIPPED, ConfigError, find, load
from conf.schema.prices import PriceList, VmPrice
from conf.util.counted import counted

_MIB_PER_GIB = 1024
#: A price in a log that is below this share of the list's is of a spot VM, or covered already.
_ON_DEMAND = 0.95
_LONGEST = 1 << 20
#: Columns of a price list in CSV, beside those that it may leave out.
_COLUMNS = ("type", "cpus", "memory", "price_per_hour")
_OPTIONAL = ("spot_price_per_hour", "gpus")


class PriceError(ReportedError, ValueError):
    """An executor without a price; the text says what to add."""


class LoggedPrice(NamedTuple):
    """Dollars an hour of a VM and an executor's share of it, as a daemon wrote them into a log."""

    per_hour: float
    share: float


@dataclass(frozen=True, slots=True)
class Prices:
    """A price list, and the VM type where it maps no host of an executor; empty: the one in the log."""

    table: PriceList
    vm_type: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        if self.vm_type and self.table.type_named(self.vm_type) is None:
            raise PriceError(f"--vm {self.vm_type}: is not in the prices {self.name}; add its price there")

    def type_of(self, application: LoggedApplication, executor: Executor) -> str:
        """The VM type that an executor ran on, if that is known and has a price; else an empty text.

        The host counts first, then `vm_type`, then what the log has of the executor, then of its application.
        """
        for pattern, name in self.table.hosts.items():
            if fnmatchcase(executor.host, pattern):
                return name
        if self.vm_type:
            return self.vm_type
        told = executor.attributes
        if told and told.vm_type and told.vm_price is not None:
            return told.vm_type
        launched = told.vm_type if told else ""
        known = (name for name in (launched, application.vm_type) if self.table.type_named(name))
        return next(known, "")

    def logged(self, executor: Executor, name: str) -> LoggedPrice | None:
        """The price in the log for an executor on a VM of that type; None where the list's counts."""
        told = executor.attributes
        if told is None or told.vm_price is None or told.vm_type != name or self.vm_type:
            return None
        return LoggedPrice(told.vm_price, told.vm_share)

    def is_on_demand(self, application: LoggedApplication, executor: Executor) -> bool:
        """Whether its VM costs the list's price on demand, as far as the log tells; plans are for these."""
        name = self.type_of(application, executor)
        logged, listed = self.logged(executor, name), self.table.type_named(name) if name else None
        return logged is None or listed is None or logged.per_hour >= _ON_DEMAND * listed.price_per_hour

    def per_hour_with_memory(
        self, application: LoggedApplication, executor: Executor, memory_mib: int
    ) -> float:
        """Dollars an hour of an executor with so much memory; as now where the list lacks its VM's size."""
        other = replace(executor, memory_mib=memory_mib)
        told, name = executor.attributes, self.type_of(application, executor)
        if told is not None and told.vm_type == name:
            vm = self.table.type_named(name)
            ratio = 1.0 if vm is None else _computed_share(other, vm) / _computed_share(executor, vm)
            other = replace(other, attributes=replace(told, vm_share=min(1.0, told.vm_share * ratio)))
        return self.per_hour(application, other)

    def per_hour(self, application: LoggedApplication, executor: Executor) -> float:
        """Dollars an hour of an executor; PriceError when the list has no price for it.

        On a VM of known type that is the VM's price by the executor's dominant share of it; else its cores,
        memory and GPUs. The price that a daemon wrote into the log counts before the list's: VMs of one type
        may differ in it, on demand and spot.
        """
        name = self.type_of(application, executor)
        if (logged := self.logged(executor, name)) is not None:
            return logged.per_hour * logged.share
        vm = self.table.type_named(name) if name else None
        if vm is not None:
            return vm.price_per_hour * _share(executor, vm, name)
        table = self.table
        if table.per_core_hour is None:
            what = (
                f"its VM type {application.vm_type} is not" if application.vm_type else "no VM type is known"
            )
            raise PriceError(
                f"{application.log}: {what} in the prices {self.name}; add the type, say --vm TYPE, map host "
                f"{executor.host} in hosts, or give per_core_hour and per_gib_hour"
            )
        by_memory = table.per_gib_hour * executor.memory_mib / _MIB_PER_GIB
        return table.per_core_hour * executor.cores + by_memory + table.per_gpu_hour * executor.gpus


def _share(executor: Executor, vm: VmPrice, name: str) -> float:
    if executor.attributes and executor.attributes.vm_type == name:
        return executor.attributes.vm_share
    return _computed_share(executor, vm)


def _computed_share(executor: Executor, vm: VmPrice) -> float:
    gpus = vm.resources.get("gpus", 0.0)
    shares = (
        executor.cores / vm.cpus,
        executor.memory_mib / vm.memory,
        executor.gpus / gpus if gpus else 0.0,
    )
    return min(1.0, max(shares))


def load_prices(name: str, vm_type: str = "") -> Prices:
    """A price list by name (of conf/prices), or a YAML or CSV file; ConfigError or PriceError with the fault.

    A CSV file has the columns type, cpus, memory and price_per_hour, and may have spot_price_per_hour and
    gpus.
    """
    return Prices(_table(name), vm_type, name)


def _table(name: str) -> PriceList:
    if name.endswith(".csv"):
        return _of_csv(find(name))
    if Path(name).suffix:
        return load(find(name), PriceList)
    try:
        return load(find(f"prices/{name}.yaml"), PriceList)
    except ConfigError as error:
        known = sorted(path.stem for path in (SHIPPED / "prices").glob("*.yaml"))
        if name in known:
            raise
        listed = ", ".join(known)
        raise ConfigError(
            f"--prices {name}: no such list; known are {listed}, or a .yaml or .csv file"
        ) from error


def _of_csv(path: Path) -> PriceList:
    try:
        rows = list(csv.DictReader(io.StringIO(read_bounded(path, _LONGEST), newline=""), strict=True))
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    types: dict[str, VmPrice] = {}
    for number, row in enumerate(rows, 2):
        columns = {key for key in row if key is not None}
        if None in row or None in row.values():  # 0,192 for 0.192 would be a price of 0
            raise ConfigError(
                f"{path}:{number}: should have {counted(len(columns), 'column')}, as its header"
            )
        if not {*_COLUMNS} <= columns <= {*_COLUMNS, *_OPTIONAL}:
            wanted = f"{','.join(_COLUMNS)}, and {' and '.join(_OPTIONAL)} if need be"
            raise ConfigError(f"{path}: its columns should be {wanted}, found {','.join(sorted(columns))}")
        if types.setdefault(row["type"], price := _row(path, number, row)) is not price:
            raise ConfigError(f"{path}:{number}: {row['type']}: has a price in an earlier line")
    try:
        return PriceList(types=types, source=path.name)
    except ValueError:
        raise ConfigError(f"{path}: should have a line for each VM type below its header") from None


def _row(path: Path, number: int, row: Mapping[str, Any]) -> VmPrice:
    try:
        spot, gpus = row.get("spot_price_per_hour"), row.get("gpus")
        return VmPrice.model_validate(
            {
                "cpus": float(row["cpus"]),
                "memory": row["memory"],
                "price_per_hour": float(row["price_per_hour"]),
                "spot_price_per_hour": float(spot) if spot else None,
                "resources": {"gpus": float(gpus)} if gpus and float(gpus) else {},
            }
        )
    except (TypeError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise ConfigError(f"{path}:{number}: should be as in m5.xlarge,4,16g,0.192: {why}") from None
