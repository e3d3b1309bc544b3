"""The comparison of spot VMs by recorded availability with VMs on demand."""
