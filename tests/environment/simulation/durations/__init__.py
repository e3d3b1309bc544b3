"""Tests of `environment/simulation/durations`."""
