"""Plays the queue forward: forecasts for hypothetical cases, and estimates of start times and costs."""
