"""Leader election, the leader's lease and fencing."""
