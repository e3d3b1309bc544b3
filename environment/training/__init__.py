"""Environments for Gymnasium and TF-Agents."""
