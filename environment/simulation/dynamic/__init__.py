"""Dynamic allocation in a simulation: drivers request and release executors while their jobs run."""
