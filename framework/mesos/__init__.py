"""The connection to a Mesos master: offers, tasks, status updates."""
