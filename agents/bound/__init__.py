"""The limit: the cost of the best schedule of a workload with all jobs known beforehand."""
