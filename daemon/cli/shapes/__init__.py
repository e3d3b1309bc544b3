"""The command `shapes`: the cost of each shape of executors for a type of jobs."""
