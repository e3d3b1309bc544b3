"""Backup, doctor, pruning, config check, recorded runs."""
