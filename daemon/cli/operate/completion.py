"""The command `completion`: the script by which a shell asks stoker how a word could go on."""

from typing import Annotated, Literal

import typer

#: Where a shell says which of its protocols it speaks when it asks.
VARIABLE = "_STOKER_COMPLETE"


def prepare() -> None:
    """Register typer's completion classes, so that typer answers the scripts of `completion`."""
    from typer._completion_classes import completion_init

    completion_init()


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")
    ],
) -> None:
    """Print a script that lets a shell complete commands and flags of stoker.

    Example: echo 'eval "$(stoker completion bash)"' >> ~/.bashrc
    """
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name="stoker", complete_var=VARIABLE, shell=shell))
