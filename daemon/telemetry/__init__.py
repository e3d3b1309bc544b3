"""The traces of jobs, for OpenTelemetry: what was stored of a job that is over, sent to a collector."""
