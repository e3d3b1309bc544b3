"""Tests of `daemon/http/routes/jobs`."""
