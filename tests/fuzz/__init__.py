"""Requests that nobody thought of, against a real daemon; see __main__.py."""
