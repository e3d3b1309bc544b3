"""Executors and VMs that are lost, and the consequences."""
