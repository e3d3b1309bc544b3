"""What every part of the daemon shares: errors, statuses, identities, clock, event queue."""
