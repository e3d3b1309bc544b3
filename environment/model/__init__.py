"""The state machine of the cluster: events in, commands out. No I/O."""
