"""Experiments of Zhao 2023, section 4."""
