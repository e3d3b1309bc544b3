"""Tests of `framework/host`."""
