"""Compiled code of learned policies: their networks, and episodes played with them."""
