"""Many users on one cluster: whose turn it is, and who has to wait for a limit; the same in both worlds."""
