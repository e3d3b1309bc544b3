"""Tests of `daemon/notifications`."""
