"""Tests of `daemon/cli/shared`."""
