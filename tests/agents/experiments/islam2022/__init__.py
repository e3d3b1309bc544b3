"""Tests of `agents/experiments/islam2022`."""
