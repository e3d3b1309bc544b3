"""Tables of `stoker cluster`: the VMs, the executors on them, and the VMs that pools could still open."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from conf.util.counted import counted
from daemon.cli.shared import render

Json = dict[str, Any]


def cluster(answer: Mapping[str, Any], wide: bool) -> Iterator[RenderableType]:
    """The VMs with their used resources, the closed VMs of each pool, and the sums."""
    vms, pools = answer["vms"], answer["pools"]
    if not vms and not pools:
        yield "No VMs: the master has offered none yet. The daemon's /readyz says whether it is connected."
        return
    if answer["note"]:
        yield from (render.wrapped(answer["note"]), "")
    everything = [*vms, *pools]
    others, noted = any(vm["resources"] for vm in everything), any(vm["note"] for vm in everything)

    def row(name: str, state: str, of: Json, *used: str, executors: str = "") -> tuple[str, ...]:
        cpus, memory, *rest = used
        shown = [name, *([state] if pools else []), of["type"], cpus, memory, *(rest if others else [])]
        shown += [f"{render.money(of['price_per_hour'])}/h", executors, *([of["note"]] if noted else [])]
        return tuple(shown)

    rows = [
        row(
            vm["name"],
            _state(vm),
            vm,
            f"{vm['used_cpus']:g} of {vm['cpus']:g}",
            f"{render.memory(vm['used_memory_mib'])} of {render.memory(vm['memory_mib'])}",
            _others_used(vm),
            executors=", ".join(vm["executors"]),
        )
        for vm in vms
    ]
    rows += [
        row(
            f"{pool['max'] - pool['open']} of {pool['name']}",
            "closed",
            pool,
            f"{pool['cpus']:g}",
            render.memory(pool["memory_mib"]),
            _amounts(pool["resources"]),
        )
        for pool in pools
        if pool["open"] < pool["max"]
    ]
    columns = ["VM", *(["state"] if pools else []), "type", "cpus used", "memory used"]
    columns += [*(["others used"] if others else []), "price", "executors", *(["note"] if noted else [])]
    numbers = ("cpus used", "memory used", "price")
    wrap = ("VM", "state", "note")
    yield render.fitted(
        columns, rows, wide=wide, right=numbers, cut=("executors",), wrap=wrap, spare=("type", "note")
    )
    yield ""
    yield _sums(vms)
    if answer["order"]:
        queues = render.count(answer["queues"], "queue") if answer["queues"] else "any queue"
        order = ", ".join(answer["order"])
        yield f"Shared by {queues}, in order of {order}: `stoker queue list` shows their shares."
    if answer["provider"]:
        yield f"The provider does not complete all requests: {answer['provider']}"


def _state(vm: Json) -> str:
    if vm["state"] in ("opening", "booting") and vm["ready_at"] is not None:
        return f"{vm['state']} until {render.clock(vm['ready_at'])}"
    return str(vm["state"])


def _others_used(vm: Json) -> str:
    used = vm["used_resources"]
    return ", ".join(f"{used.get(name, 0):.10g} of {of:.10g} {name}" for name, of in vm["resources"].items())


def _amounts(resources: Json) -> str:
    return ", ".join(f"{amount:.10g} {name}" for name, amount in resources.items())


def _sums(vms: Sequence[Json]) -> str:
    used = sum(1 for vm in vms if vm["used_cpus"] or vm["executors"])
    cores = f"{sum(vm['used_cpus'] for vm in vms):g} of {counted(sum(vm['cpus'] for vm in vms), 'cpu')} used"
    held = render.money(sum(vm["price_per_hour"] for vm in vms if vm["used_cpus"] or vm["executors"]))
    up = render.money(sum(vm["price_per_hour"] for vm in vms))
    return f"{render.count(len(vms), 'VM')} up, {up}/h if all are used; {used} in use at {held}/h; {cores}"
