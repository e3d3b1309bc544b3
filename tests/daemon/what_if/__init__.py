"""Tests of `daemon/what_if`."""
