"""Tests of `agents/experiments/zhao2023`."""
