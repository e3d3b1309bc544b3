"""Tests of `daemon/cli/profile`."""
