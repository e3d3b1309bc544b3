"""VMs opened and closed at a provider, and the size of this machine."""
