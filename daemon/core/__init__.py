"""Parts shared by the whole daemon: errors, statuses, identities, clock, event queue."""
