"""Computes what Spark applications cost, and could cost, from event logs, for `stoker audit`.

`log_files` finds and opens logs, `applications` reads each in one pass, `prices` and `costs` price the
executors, `savings` computes what they could cost, and `write` and `report` write the result as JSON, CSV
and HTML.
"""
