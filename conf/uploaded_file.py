"""Name of an uploaded file in a job: `stoker-file:SHA256/NAME`, with a `#ALIAS` behind it for Spark.

`daemon/disk/uploads.py` stores the file under its hash, and defines for how long.
"""

import re
from dataclasses import dataclass

from stoker.characters import unseen

SCHEME = "stoker-file"
SHA256 = r"[0-9a-f]{64}"
#: As long as a file system takes a name.
LONGEST_FILE_NAME = 255
#: Where in a driver's folder archives lie that were brought there: what is unpacked may have their names.
PACKED = ".packed"
#: What is in a driver's folder anyway, and must not be replaced.
TAKEN = frozenset({"stdout", "stderr", "events", "tmp", "stoker-ui", "spark.properties", PACKED})

_REFERENCE = re.compile(rf"{SCHEME}:(?P<sha256>{SHA256})/(?P<name>[^#]*)(?P<alias>#.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file by its content and the name that it has in a job's folder; `alias` is empty or begins with #."""

    sha256: str
    name: str
    alias: str = ""


def uploaded(reference: str) -> UploadedFile | None:
    """The uploaded file that a reference names; None for a path or any other URI.

    ValueError when it names one in a way that none can have.
    """
    if not reference.startswith(f"{SCHEME}:"):
        return None
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise ValueError(f"{reference}: should be {SCHEME}:SHA256/NAME, with 64 small hexadecimal digits")
    file = UploadedFile(found["sha256"], found["name"], found["alias"] or "")
    if why := unfit_name(file.name):
        raise ValueError(f"{reference}: {file.name!r} cannot be a file's name in a job's folder: {why}")
    return file


def unfit_name(name: str) -> str:
    """Reason why a file in a job's folder cannot have this name; empty when it can."""
    if name in ("", ".", ".."):
        return "it names no file"
    if name.startswith("-"):
        return "programs would read it as an option"
    if "/" in name or "\\" in name:
        return "it leads to another folder"
    if found := unseen(name):
        return f"it has control or invisible characters ({found})"
    if "," in name:
        return "Spark separates files by commas"
    if len(name.encode()) > LONGEST_FILE_NAME:
        return f"it has more than {LONGEST_FILE_NAME} bytes"
    return "a file of Stoker's has that name" if name in TAKEN else ""
