"""Mesos and Spark: offers into cluster views, placements into tasks, the embedded Mesos. Decides nothing."""
