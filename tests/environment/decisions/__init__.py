"""Tests of `environment/decisions`."""
