"""The queue played forward: what-if answers, and estimates of start times and costs."""
