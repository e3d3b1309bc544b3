"""Tests of `daemon/schemas`."""
