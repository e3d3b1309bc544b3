"""A real daemon, an embedded Mesos and small real programs on a bad day; see `__main__`."""
