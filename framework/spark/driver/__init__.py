"""A driver process on this host: started, supervised, its end explained."""
