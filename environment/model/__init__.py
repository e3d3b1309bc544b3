"""The cluster model, a pure state machine: events in, commands out. The daemon drives it."""
