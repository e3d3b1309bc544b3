"""How uploaded files reach a job's driver: copied into its folder on this host, or fetched by its VM.

The URL for that holds a key that follows from the job's secret, so that nobody can guess it, and that tells
nothing of the secret; it is of no use once the job's launch is forgotten.
"""

import contextlib
import hashlib
import hmac
import os
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from urllib.parse import quote

from conf.schema import JobSpec
from conf.uploaded_file import UploadedFile, uploaded
from daemon.disk.uploads import Uploads
from framework.host.unix_users import UnixAccount
from framework.spark import alias_parts

#: Where drivers elsewhere fetch files, without the API's token.
PATH = "/v1/fetch/"


def files_of(spec: JobSpec) -> dict[str, UploadedFile]:
    """The uploaded files that a job names, by how it does, but for the name behind a #.

    ValueError where one cannot be had so, or two of them could not be in one folder.
    """
    named = (*spec.py_files, *spec.files, *spec.jars, *spec.archives)
    references = (spec.app, *(alias_parts(each)[0] for each in named))
    found: dict[str, UploadedFile] = {}
    names: dict[str, UploadedFile] = {}
    for reference in references:
        if (file := uploaded(reference)) is None:
            continue
        if file.alias:
            raise ValueError(f"{reference}: a program cannot have another name behind a #")
        if names.setdefault(file.name, file) != file:
            raise ValueError(
                f"two uploaded files are named {file.name}: a driver has all of them in one folder"
            )
        found[reference] = file
    return found


def archives_of(spec: JobSpec) -> dict[str, UploadedFile]:
    """The uploaded archives that a job names, by how it does, but for the folder behind a #."""
    places = (alias_parts(archive)[0] for archive in spec.archives)
    return {place: file for place in places if (file := uploaded(place)) is not None}


def plain_of(spec: JobSpec) -> dict[str, UploadedFile]:
    """The uploaded files that a job names otherwise than as archives."""
    named = (*spec.py_files, *spec.files, *spec.jars)
    plain = {spec.app, *(alias_parts(each)[0] for each in named)}
    return {reference: file for reference, file in files_of(spec).items() if reference in plain}


def key(secret: str, file: UploadedFile) -> str:
    """Key that opens only this file of the job with this secret."""
    return hmac.new(secret.encode(), f"{file.sha256}/{file.name}".encode(), hashlib.sha256).hexdigest()


def url(base: str, job_id: str, secret: str, file: UploadedFile) -> str:
    """URL of the file for a driver of the job; `base` is the address of the daemon's API."""
    return f"{base}{PATH}{job_id}/{key(secret, file)}/{quote(file.name, safe='')}"


def wanted(files: Iterable[UploadedFile], secret: str, given: str) -> UploadedFile | None:
    """Which of a job's files a key opens; None for a key that opens none."""
    asked = given.encode("utf-8", "replace")
    return next((file for file in files if hmac.compare_digest(key(secret, file).encode(), asked)), None)


def copy_in(
    uploads: Uploads, files: Collection[UploadedFile], owner: str, folder: Path, account: UnixAccount | None
) -> None:
    """Put files of an owner's into a driver's folder under their names, for `account` to read and write.

    ValueError when one is not kept any more, OSError when one cannot be copied.
    """
    sources = [(uploads.checked(file, owner), file.name) for file in files]
    if not sources:
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if account is not None:
            os.fchown(at, account.uid, account.gid)
        for source, name in sources:
            _copy(source, name, at, account)
    finally:
        os.close(at)


def _copy(source: Path, name: str, folder: int, account: UnixAccount | None) -> None:
    """Copy a file into a folder, without following or overwriting other users' files."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)  # of an earlier try
    with source.open("rb") as original, os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as copy:
        if account is not None:
            os.fchown(copy.fileno(), account.uid, account.gid)
        shutil.copyfileobj(original, copy, 1 << 20)
