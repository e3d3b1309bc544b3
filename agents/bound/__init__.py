"""The limit: what the best schedule of a workload costs, of which all is known beforehand."""
