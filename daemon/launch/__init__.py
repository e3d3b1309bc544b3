"""Spark drivers and executors: commands, processes, logs."""
