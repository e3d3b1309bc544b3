"""Tests of `agents/lookahead`."""
