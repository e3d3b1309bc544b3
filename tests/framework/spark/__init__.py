"""Tests of `framework/spark`."""
