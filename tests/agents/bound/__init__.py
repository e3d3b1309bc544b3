"""Tests of `agents/bound`."""
