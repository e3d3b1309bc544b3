"""Shapes of a job's executors (number, cores, memory, VM type) and their costs, learned from few runs."""
