"""Tests of `conf/util`."""
