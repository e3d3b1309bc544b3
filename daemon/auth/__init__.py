"""Users, tokens, sessions and roles: who is calling and which calls are allowed."""
