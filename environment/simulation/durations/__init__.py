"""How long jobs take, and which durations policies believe."""
