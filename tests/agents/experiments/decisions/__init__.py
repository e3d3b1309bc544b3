"""Tests of `agents/experiments/decisions`."""
