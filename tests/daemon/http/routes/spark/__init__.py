"""Tests of `daemon/http/routes/spark`."""
