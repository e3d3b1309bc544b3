"""Writes files in one step."""

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Write a file so that readers find all of it, or the file before it; text in UTF-8.

    OSError when that cannot be, on a full disk for one: then nothing is left of the attempt.
    """
    data = content.encode() if isinstance(content, str) else content
    opened, draft = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(opened, "wb") as file:
            os.fchmod(opened, mode)
            file.write(data)
        os.replace(draft, path)  # noqa: PTH105  # a Path of it serves nothing else
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)  # noqa: PTH108
        raise
