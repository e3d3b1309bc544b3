"""VMs opened and closed at a provider, and the embedded Mesos."""
