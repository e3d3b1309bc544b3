"""Tests of `environment/simulation/forecast`."""
