"""Tests of `daemon/http/server`."""
