"""Tests of `daemon/cli/cluster`."""
