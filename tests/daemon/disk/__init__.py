"""Tests of `daemon/disk`."""
