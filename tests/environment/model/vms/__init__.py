"""Tests of `environment/model/vms`."""
