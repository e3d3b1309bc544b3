"""The audit of made logs against the ledger of a daemon, which is told of the same executors."""

from pathlib import Path

import numpy as np
import pytest

from audit.costs import costs_of
from audit.prices import Prices
from audit.read_logs import read_logs
from conf.schema.prices import PriceList, VmPrice
from environment.model.messages.records import ExecutorRecord
from environment.model.vms.usage_ledger import Ledger
from environment.resources import Resources
from environment.types import Vm
from tests.audit.made_logs import BEGAN, added, app_end, app_start, environment, removed, task, written

#: Types by name: cpus, MiB and dollars an hour; one is scarce of cores, the other of memory.
TYPES = {"wide": (16, 32_768, 0.8), "flat": (64, 16_384, 1.1)}
HEAP, OVERHEAD = 1024, 384


def test_the_daemons_ledger_has_the_same_costs(tmp_path: Path) -> None:
    """By job within 1 %: executors of 20 jobs come and go on VMs that they share, and some are lost."""
    draw = np.random.default_rng(7)
    vms = tuple(
        Vm(f"{kind}-{n}", f"{kind}-{n}", kind, Resources.of(cpus, memory), price)
        for kind, (cpus, memory, price) in TYPES.items()
        for n in range(2)
    )
    ledger = Ledger()
    ledger.accounts.see(vms, BEGAN, known=True)
    steps: list[tuple[float, bool, ExecutorRecord]] = []
    for job in range(20):
        steps += _job(f"job-{job}", tmp_path, vms, draw)
    for at, opened, record in sorted(steps, key=lambda step: step[:2]):
        if opened:
            ledger.open(record)
        else:
            ledger.close(record, at)
    used: dict[str, float] = {}
    for charge in ledger.accounts.take()[0]:
        if charge.kind == "used":
            used[charge.job] = used.get(charge.job, 0.0) + charge.dollars
    hosts = {f"{kind}-*": kind for kind in TYPES}
    types = {kind: VmPrice(cpus=c, memory=m, price_per_hour=price) for kind, (c, m, price) in TYPES.items()}
    costs = costs_of(read_logs([str(tmp_path)]).applications, Prices(PriceList(types=types, hosts=hosts)))
    found = {cost.application.id: cost.total for cost in costs.each}
    assert found == pytest.approx(used, rel=0.01)
    assert costs.total.total == pytest.approx(sum(used.values()), rel=0.001)


def _job(
    name: str, folder: Path, vms: tuple[Vm, ...], draw: np.random.Generator
) -> list[tuple[float, bool, ExecutorRecord]]:
    """Write the log of a job; the openings and closings of its executors."""
    began = round(float(draw.uniform(0, 3000)), 3)
    ended = began + round(float(draw.uniform(300, 900)), 3)
    settings = environment(executor__memory=f"{HEAP}m", executor__memoryOverhead=f"{OVERHEAD}m")
    events, steps = [settings, app_start(name, began, app=name)], []
    for number in range(int(draw.integers(1, 3))):
        vm = vms[int(draw.integers(len(vms)))]
        size = Resources.of(1.0, HEAP + OVERHEAD)
        share = max(1.0 / vm.cpus, (HEAP + OVERHEAD) / vm.memory_mib)
        comes = began + round(float(draw.uniform(0, 60)), 3)
        goes = ended if draw.random() < 0.5 else round(comes + (ended - comes) / 2, 3)
        events += [added(str(number), comes, 1, vm.name), task(str(number), comes + 5, comes + 9)]
        if goes < ended:
            events.append(removed(str(number), goes, "Lost executor: the VM is gone"))
        record = ExecutorRecord(
            f"{name}-{number}",
            name,
            number,
            vm.id,
            vm.name,
            vm.type,
            "",
            vm.price_per_hour,
            size,
            (),
            BEGAN + comes,
            share=share,
        )
        steps += [(BEGAN + comes, True, record), (BEGAN + goes, False, record)]
    written(folder, [*events, app_end(ended)], name)
    return steps
