"""Tests of `daemon/store/rows`."""
