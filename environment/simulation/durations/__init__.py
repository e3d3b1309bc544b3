"""Durations of jobs, true and believed by policies."""
