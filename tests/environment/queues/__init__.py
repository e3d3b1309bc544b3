"""Tests of `environment/queues`."""
