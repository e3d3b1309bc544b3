"""Tests of `agents/baselines`."""
