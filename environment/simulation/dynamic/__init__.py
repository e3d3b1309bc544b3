"""Executors that running jobs get or give while they run: dynamic allocation, scale-up, preemption."""
