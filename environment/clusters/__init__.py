"""Cluster files and spot prices over time."""
