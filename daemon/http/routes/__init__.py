"""Routes of the HTTP API, one file per group."""
