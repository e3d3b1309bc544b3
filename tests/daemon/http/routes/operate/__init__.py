"""Tests of `daemon/http/routes/operate`."""
