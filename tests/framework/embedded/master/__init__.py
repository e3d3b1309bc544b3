"""Tests of `framework/embedded/master`."""
