"""Tests of `daemon/launch`."""
