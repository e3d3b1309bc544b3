"""Overtaking: jobs behind the head of the queue are placed before it, under any placement policy."""
