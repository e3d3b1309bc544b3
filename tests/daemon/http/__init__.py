"""Tests of `daemon/http`."""
