"""Workloads: jobs and their arrivals, generated or read from files and traces."""
