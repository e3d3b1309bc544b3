"""Tests of `agents/overtaking`."""
