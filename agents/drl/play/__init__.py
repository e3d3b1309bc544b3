"""Simulations of learned policies in compiled code: the network's queries, and its guard."""
