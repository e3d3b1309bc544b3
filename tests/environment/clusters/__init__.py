"""Tests of `environment/clusters`."""
