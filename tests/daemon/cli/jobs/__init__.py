"""Tests of `daemon/cli/jobs`."""
