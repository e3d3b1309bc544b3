"""Placing each job where, and when, it adds least to the bill and to its time."""
