"""Tests of `framework/embedded/agent`."""
