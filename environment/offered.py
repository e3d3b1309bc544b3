"""What the master offers of each VM at one moment: what may be launched on now, of all that is free."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

#: A driver listens on three ports (its own, its block manager's, its web page's), an executor on one.
DRIVER_PORTS = 3
EXECUTOR_PORTS = 1


@dataclass(frozen=True, eq=False)
class Offered:
    """What is offered of each VM; arrays are indexed like the view's VMs and read-only.

    `there` tells of which VMs anything is offered, `ports` counts the ports. What is offered may be less than
    what is free: offers come back one by one, after a round of decisions or the end of a task.
    """

    there: NDArray[np.bool_]
    cpus: NDArray[np.float64]
    memory_mib: NDArray[np.float64]
    ports: NDArray[np.int64]
    resources: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for array in (self.there, self.cpus, self.memory_mib, self.ports, *self.resources.values()):
            array.flags.writeable = False

    def lacks_ports(self, ports: int = EXECUTOR_PORTS) -> NDArray[np.bool_]:
        """Of which VMs something is offered, but fewer ports than these; bool [N]."""
        lacks: NDArray[np.bool_] = self.there & (self.ports < ports)
        return lacks

    def without(
        self,
        cpus: NDArray[np.float64],
        memory_mib: NDArray[np.float64],
        ports: NDArray[np.int64],
        resources: Mapping[str, NDArray[np.float64]],
    ) -> "Offered":
        """What is left of it when so much of each VM was used."""
        left = {
            name: had - resources[name] if name in resources else had for name, had in self.resources.items()
        }
        return replace(
            self,
            cpus=self.cpus - cpus,
            memory_mib=self.memory_mib - memory_mib,
            ports=self.ports - ports,
            resources=left,
        )
