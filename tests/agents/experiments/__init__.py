"""Tests of `agents/experiments`."""
