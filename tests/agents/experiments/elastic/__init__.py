"""Tests of `agents/experiments/elastic`."""
