"""Tests of `agents/experiments/spot`."""
