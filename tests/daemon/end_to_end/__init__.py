"""Tests of `daemon/end_to_end`."""
