"""A policy's run over a workload."""
