"""Tests of `environment/simulation/faults`."""
