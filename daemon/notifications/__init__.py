"""Webhooks and traces: events sent until they are acknowledged."""
