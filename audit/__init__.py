"""Computes the cost of Spark applications from event logs, for `stoker audit`; no cluster is needed.

`log_files` finds and opens logs, `applications` reads each in one pass, `prices` and `costs` price the
executors, and `write` writes the result as JSON and CSV.
"""
