"""Tests of `environment/simulation/results`."""
