"""Simulations played by learned policies in compiled code: what is asked of a network, and its guard."""
