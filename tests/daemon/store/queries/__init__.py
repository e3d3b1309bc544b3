"""Tests of `daemon/store/queries`."""
