"""Tests of `daemon/cli/operate`."""
