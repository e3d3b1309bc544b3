"""The scheduling loop: one thread that drives the cluster model."""
