"""Tests of `agents/experiments/leaderboard`."""
