"""Tests of `daemon/leadership`."""
