"""Tests of `agents/greedy`."""
