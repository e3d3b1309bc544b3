"""Writes files in one step."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield where to write a file's content, which takes its place at the end of a block that raises nothing.

    So a command that is killed, or has no room, leaves no half of a file that can be read as a whole one. It
    gets the mode of the one before, or that of any new file. A device or a pipe is written at once. OSError.
    """
    place = path.resolve()
    if place.exists() and not place.is_file():
        yield path
        return
    opened, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.", suffix=place.suffix)
    draft = Path(name)
    try:
        os.fchmod(opened, stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o666 & ~_umask())
        os.close(opened)
        yield draft
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
