"""Tests of `framework/spark/driver`."""
