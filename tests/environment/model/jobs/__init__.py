"""Tests of `environment/model/jobs`."""
