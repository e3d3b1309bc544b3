"""Tests of `framework/providers`."""
