"""Knowledge about jobs: Spark applications to measure, measured profiles, workloads, trace readers."""
