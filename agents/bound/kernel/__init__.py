"""Compiled parts of the search for schedules."""
