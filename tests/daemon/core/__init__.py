"""Tests of `daemon/core`."""
