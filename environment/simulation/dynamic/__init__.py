"""Jobs of a simulation whose drivers request and release executors while they run: dynamic allocation."""
