"""Policies on shifted cases that none was tuned on."""
