"""The service: job store, scheduling loop, HTTP API, command line. The only place that wires parts together."""
