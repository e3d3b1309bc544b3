"""Policies compared in the simulator: runs over workloads and seeds, their statistics, and the reports."""
