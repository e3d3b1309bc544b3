"""Fair order, limits and preemption over a tree of queues."""
