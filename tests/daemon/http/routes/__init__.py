"""Tests of `daemon/http/routes`."""
