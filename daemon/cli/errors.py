"""What a command raises when it cannot do what it was asked: a text for the user and an exit code."""

#: Bad input, or no daemon to talk to.
BAD_INPUT = 2


class CommandError(Exception):
    """Ends a command: each line of the text goes to stderr after `stoker: `."""

    def __init__(self, text: str, exit_code: int = BAD_INPUT) -> None:
        super().__init__(text)
        self.exit_code = exit_code
