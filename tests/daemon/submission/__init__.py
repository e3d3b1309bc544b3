"""Tests of `daemon/submission`."""
