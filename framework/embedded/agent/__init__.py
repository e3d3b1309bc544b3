"""The embedded agent: tasks as processes, health checks, sandboxes."""
