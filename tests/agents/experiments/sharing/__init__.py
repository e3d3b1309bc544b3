"""Tests of `agents/experiments/sharing`."""
