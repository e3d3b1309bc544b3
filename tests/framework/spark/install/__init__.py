"""Tests of `framework/spark/install`."""
