"""Tests of `environment/model/walks`."""
