"""Tests of `framework/embedded/wire`."""
