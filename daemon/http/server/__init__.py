"""Connections, TLS, the gate before every route, error responses."""
