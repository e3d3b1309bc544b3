"""What a Spark user's event logs cost, and what they could cost: `stoker audit`, which needs no cluster.

`log_files` finds and opens logs, `applications` reads each in one pass, `prices` and `costs` price what it
held, `savings` plays it under other policies and sizes, and `report` shows all of it.
"""
