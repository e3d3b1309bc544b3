"""Policies, their registry and their experiments."""
