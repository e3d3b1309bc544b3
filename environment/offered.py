"""Resources of each VM that the master offers now: the part of the free ones usable for launches."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from environment.resource_arrays import ResourceArrays

#: A driver listens on three ports (its own, its block manager's, its web page's), an executor on one.
DRIVER_PORTS = 3
EXECUTOR_PORTS = 1


@dataclass(frozen=True, eq=False)
class OfferedResources:
    """Offered resources of each VM; arrays are indexed like the view's VMs and read-only.

    `there` marks the VMs with any offer, `ports` counts the ports. Less may be offered than is free: offers
    come back one by one, after a round of decisions or the end of a task.
    """

    there: NDArray[np.bool_]
    resources: ResourceArrays
    ports: NDArray[np.int64]

    def __post_init__(self) -> None:
        for array in (self.there, self.ports):
            array.flags.writeable = False

    def lacks_ports(self, ports: int = EXECUTOR_PORTS) -> NDArray[np.bool_]:
        """VMs with an offer that has fewer ports than these; bool [N]."""
        lacks: NDArray[np.bool_] = self.there & (self.ports < ports)
        return lacks

    def of_vms(self, vms: NDArray[np.int64]) -> "OfferedResources":
        """Offers of the VMs with these indices alone."""
        return OfferedResources(self.there[vms], self.resources.of_vms(vms), self.ports[vms])

    def without(self, taken: ResourceArrays, ports: NDArray[np.int64]) -> "OfferedResources":
        """Offers that remain after these amounts and ports of each VM were used."""
        return replace(self, resources=self.resources - taken, ports=self.ports - ports)
