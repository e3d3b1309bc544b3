"""Tests of `daemon/store`."""
