"""Shapes chosen from two runs, on tables of real Spark runs."""
