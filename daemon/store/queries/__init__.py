"""Queries over stored jobs: lookups, lists, sums."""
