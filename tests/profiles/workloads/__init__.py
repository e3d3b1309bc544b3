"""Tests of `profiles/workloads`."""
