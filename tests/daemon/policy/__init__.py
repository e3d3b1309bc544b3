"""Tests of `daemon/policy`."""
