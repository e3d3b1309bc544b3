"""The present played forward, for the daemon."""
