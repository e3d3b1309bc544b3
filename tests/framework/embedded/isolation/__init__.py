"""Tests of `framework/embedded/isolation`."""
