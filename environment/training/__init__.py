"""What agents are trained on: episodes of workloads, many at once, for Gymnasium and for TF-Agents."""
