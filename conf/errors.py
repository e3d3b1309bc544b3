"""The base class of errors with a text for users."""


class ReportedError(Exception):
    """An error with a text for users: a command prints it and ends with exit code 2."""
