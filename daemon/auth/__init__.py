"""Users, tokens, sessions and roles: identify callers and decide their permitted calls."""
