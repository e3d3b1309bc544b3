"""Results of a run: jobs, VMs, decisions, bill, fairness."""
