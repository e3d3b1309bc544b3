"""The service: job store, scheduling loop, HTTP API, command line. Here the parts are wired together."""
