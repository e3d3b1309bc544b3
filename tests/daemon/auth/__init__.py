"""Tests of `daemon/auth`."""
