"""Policies on elastic clusters."""
