"""Tests of `environment/two_worlds`."""
