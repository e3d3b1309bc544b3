"""An environment that has every program load code of a job's, and paths that become something else."""

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

#: Creates a file whose owner is the effective user, whichever way it is loaded.
LIBRARY = """
#include <stdio.h>
#include <unistd.h>
unsigned int la_version(unsigned int version) { return version; }
__attribute__((constructor)) static void begin(void) {
    char name[4096];
    snprintf(name, sizeof name, "%s/loaded.%d", FOLDER, getpid());
    FILE *file = fopen(name, "w");
    if (file) fclose(file);
}
"""
MODULE = """
import os
open(os.path.join({folder!r}, f"imported.{{os.getpid()}}"), "w").close()
"""


def environment_of(folder: Path, modules: Sequence[str]) -> Mapping[str, str]:
    """Variables by which each process that has them leaves a file of its user's in `folder`/obeyed.

    Python imports `modules` from `folder`/modules. Without a C compiler, LD_PRELOAD and LD_AUDIT are missing.
    """
    obeyed, own = folder / "obeyed", folder / "modules"
    obeyed.mkdir()
    obeyed.chmod(0o777)
    own.mkdir()
    for name in modules:
        (own / f"{name}.py").write_text(MODULE.format(folder=str(obeyed)))
    made = {
        "GLIBC_TUNABLES": "glibc.malloc.check=3",
        "PYTHONPATH": str(own),
        "PYTHONSTARTUP": str(own / f"{modules[0]}.py"),
        "BASH_ENV": str(own / "none"),
    }
    if (compiler := shutil.which("cc")) is not None:
        source, library = folder / "library.c", folder / "library.so"
        source.write_text(LIBRARY.replace("FOLDER", f'"{obeyed}"'))
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
        made |= {"LD_PRELOAD": str(library), "LD_AUDIT": str(library)}
    return made


@contextlib.contextmanager
def exchanged(path: Path, targets: Sequence[str], pause: float = 0.0) -> Iterator[None]:
    """Have a link lead to each target in turn, `pause` seconds each."""
    ended = threading.Event()

    def exchange() -> None:
        while not ended.is_set():
            for target in targets:
                draft = path.with_name(f"{path.name}.draft")
                draft.symlink_to(target)
                draft.rename(path)
                ended.wait(pause)

    path.symlink_to(targets[0])
    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
