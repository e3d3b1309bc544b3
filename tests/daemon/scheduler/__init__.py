"""Tests of `daemon/scheduler`."""
