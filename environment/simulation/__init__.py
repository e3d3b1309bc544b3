"""Simulated runs of policies over workloads: who is asked when, how long jobs take, and what came of it."""
