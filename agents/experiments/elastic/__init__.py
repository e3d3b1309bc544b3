"""Policies on clusters whose VMs come and go."""
