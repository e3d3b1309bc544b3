"""The shape of a job's executors (number, cores, memory, VM type): what it costs, learned from few runs."""
