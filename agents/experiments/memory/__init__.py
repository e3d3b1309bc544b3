"""Memory that jobs ask for on real Spark: as users do, by the median job, and left to Stoker."""
