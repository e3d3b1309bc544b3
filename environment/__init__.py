"""The cluster as a model: VMs, jobs, placements, the clock and prices. No I/O lives here."""
