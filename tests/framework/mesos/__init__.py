"""Tests of `framework/mesos`."""
