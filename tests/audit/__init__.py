"""Tests of the audit of event logs."""
