"""Rules that need no training: round robin, first fit, and those that users of Kubernetes know."""
