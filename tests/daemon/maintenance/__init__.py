"""Tests of `daemon/maintenance`."""
