"""VMs of one term behind one object: opened and closed at a provider, reporting their end."""

from collections.abc import Callable
from dataclasses import dataclass

from daemon.core.cluster_status import ProviderStatus
from daemon.store.job_store import Store
from daemon.vms.termination_endpoint import TerminationEndpoint
from daemon.vms.vm_provisioner import VmProvisioner
from environment.model.messages.events import Event
from framework.providers.interface import Provider


@dataclass(frozen=True, slots=True)
class Vms:
    """`provisioner` is None without a provider."""

    provisioner: VmProvisioner | None
    endpoint: TerminationEndpoint

    def tick(self) -> None:
        """Follow requests to the provider."""
        if self.provisioner is not None:
            self.provisioner.tend()

    def close(self) -> None:
        """Send nothing more to the provider."""
        if self.provisioner is not None:
            self.provisioner.stop()

    @property
    def provider_status(self) -> ProviderStatus:
        """State of the provider; empty without one."""
        return ProviderStatus() if self.provisioner is None else self.provisioner.status


def vms_of(
    provider: Provider | None,
    store: Store,
    *,
    put: Callable[[Event], None],
    put_and_wait: Callable[[Event, float], bool],
    may_act: Callable[[], bool],
    now: Callable[[], float],
) -> Vms:
    """For one term; `put` takes events for the loop."""
    provisioner = None if provider is None else VmProvisioner(provider, put, may_act, now)
    return Vms(provisioner, TerminationEndpoint(store, put_and_wait, now))
