"""The base class of errors whose text is for a user."""


class ReportedError(Exception):
    """An error whose text is for a user: a command prints the text and ends with exit code 2."""
