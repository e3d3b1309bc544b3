"""The learners: REINFORCE, and deep Q-learning on one cluster or on drawn worlds."""
