"""Boot script of a VM: a shell template with values of one VM."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from stoker.bounded_read import read_bounded

from conf.loader import ConfigError

#: Bytes of user data that EC2 takes.
_MOST = 16 << 10
_NAME = re.compile(r"\{\{\s*([^{}\s]*)\s*\}\}")
#: The words that there are.
NAMES = frozenset({"master", "attributes", "resources", "notice_url", "key", "lease", "pool", "cluster"})


class UserData:
    """A template. ConfigError when it is none: its first line is no program's, or it has other names."""

    def __init__(self, path: Path) -> None:
        try:
            self._text = read_bounded(path, _MOST)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ConfigError(f"{path}: cannot be read: {why}") from error
        if not self._text.startswith("#!"):
            raise ConfigError(
                f"{path}:1: should begin with #! and the program that runs it, such as #!/bin/sh"
            )
        for number, line in enumerate(self._text.splitlines(), 1):
            for name in _NAME.findall(line):
                if name not in NAMES:
                    known = ", ".join(sorted(NAMES))
                    raise ConfigError(f"{path}:{number}: {{{{{name}}}}}: known names are {known}")

    def filled(self, words: Mapping[str, str]) -> str:
        """The template with each name as one word of shell; ValueError when that is longer than EC2 takes."""
        text = _NAME.sub(lambda found: shlex.quote(words[found[1]]), self._text)
        if len(text.encode()) > _MOST:
            raise ValueError(f"user data should be no longer than {_MOST} bytes")
        return text
