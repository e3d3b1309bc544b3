"""The embedded master: frameworks, offers, tasks, HTTP API."""
