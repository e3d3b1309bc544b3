"""Tests of `daemon/cli/research`."""
