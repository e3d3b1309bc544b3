"""VM types of logged executors, at the prices that were paid for them."""

from collections.abc import Sequence

from audit.prices import Prices
from audit.savings.job_runs import JobRun
from conf.schema.prices import VmPrice


def paid_types(runs: Sequence[JobRun], prices: Prices) -> dict[str, VmPrice]:
    """The VM types of the runs by name, as far as their prices are known.

    Each has the price that was paid for it, on average: no saving is one of prices alone.
    """
    by_type: dict[str, list[JobRun]] = {}
    for run in runs:
        by_type.setdefault(run.vm_type, []).append(run)
    found = {name: _paid_type(name, of, prices) for name, of in by_type.items()}
    return {name: vm for name, vm in found.items() if vm is not None}


def _paid_type(name: str, runs: Sequence[JobRun], prices: Prices) -> VmPrice | None:
    """A VM type; without a list's entry it is as large as the shares that its executors had of it allow."""
    vm = prices.table.type_named(name) if name else None
    paid = [
        (dollars, executor, prices.logged(executor, name))
        for run in runs
        for dollars, executor in zip(run.cost.executors, run.application.executors, strict=True)
    ]
    at_prices = [(dollars, price.per_hour) for dollars, _, price in paid if price is not None]
    if vm is not None:
        at_prices += [(dollars, vm.price_per_hour) for dollars, _, price in paid if price is None]
    elif at_prices:
        cpus = max(executor.cores / price.share for _, executor, price in paid if price is not None)
        memory = max(executor.memory_mib / price.share for _, executor, price in paid if price is not None)
        vm = VmPrice(cpus=round(cpus, 3), memory=round(memory), price_per_hour=at_prices[0][1])
    vm_hours = sum(dollars / price for dollars, price in at_prices if price > 0.0)
    if vm is None or not vm_hours:
        return vm
    average = sum(dollars for dollars, price in at_prices if price > 0.0) / vm_hours
    return vm.model_copy(update={"price_per_hour": round(average, 6)})
