"""Who decides: the policy registry and the policies themselves. No Mesos, no Spark, no sockets."""
