"""Deciding by simulating: candidates are played forward on the compiled rules, and the best is taken."""
