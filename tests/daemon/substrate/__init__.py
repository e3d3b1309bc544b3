"""Tests of `daemon/substrate`."""
