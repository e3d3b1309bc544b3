"""A job's life: queue, start, retry, dependencies, growth."""
