"""Estimates compared with the outcomes."""
