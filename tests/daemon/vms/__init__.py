"""Tests of `daemon/vms`."""
