"""The connection to Mesos, Spark processes, VM providers and this host."""
