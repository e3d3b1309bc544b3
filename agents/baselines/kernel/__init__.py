"""Baselines in compiled code, for simulations of very many jobs."""
