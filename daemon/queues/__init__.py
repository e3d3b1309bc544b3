"""The queues of the daemon: as configured, as changed while it runs, at the door, and as users see them.

What they mean for who goes first is in `environment.sharing`.
"""
