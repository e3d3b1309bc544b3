"""The VMs of a cluster as the model of shapes counts them."""

from collections import Counter
from collections.abc import Iterable

from environment.types import Vm
from profiles.shapes.candidates import VmKind

#: Dollars an hour of a cpu of a VM without a price: next to nothing, so that smaller shapes are cheaper.
_FREE = 1e-6


def kinds_of(vms: Iterable[Vm]) -> list[VmKind]:
    """The VMs by type, size and price; those without a price cost next to nothing, by their cpus."""
    counts = Counter((vm.type, vm.cpus, vm.memory_mib, vm.price_per_hour) for vm in vms)
    return [
        VmKind(name, count, cpus, memory_mib / 1024, price or cpus * _FREE)
        for (name, cpus, memory_mib, price), count in counts.items()
    ]
