"""Decisions into launches; tasks and drivers as they start and end."""
