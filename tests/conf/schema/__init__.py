"""Tests of `conf/schema`."""
