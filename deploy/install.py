"""Installs Stoker into .venv in numbered steps: `make install` runs it, on the standard library alone.

The Makefile passes the lock file, the Spark versions and the policies to compile for. pip installs uv, and uv
the packages by the lock file's hashes. Where uv is not to be had,
or fails, pip installs them. The output of these programs goes to `.venv/install.log`.
"""

import argparse
import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

_VENV = Path(".venv")
#: Bytecode is stored also where the environment disables it: a daemon's user may not write there.
_VARIABLES = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONUNBUFFERED": "1", "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
#: Packages that uv needs first: itself, and setuptools and wheel for packages that are built from source.
_TOOLS = re.compile(r"^(?:setuptools|uv|wheel)==.*?[^\\]\n", re.MULTILINE | re.DOTALL)
_PIP = ("--disable-pip-version-check", "--no-deps", "--require-hashes")
_LAST_LINES = 15
_PATIENCE = 10.0


class StepError(Exception):
    """A program of a step failed."""


class Step:
    """One step: runs programs, one after the other or side by side, and shows the seconds it has taken."""

    def __init__(self, title: str, log: IO[str]) -> None:
        self._title, self._log, self._began = title, log, time.monotonic()
        self._running: list[subprocess.Popen[bytes]] = []
        self._optional: list[subprocess.Popen[bytes]] = []
        log.write(f"\n== {title}\n")
        log.flush()
        print(title, end=" ", flush=True)

    def start(self, command: Sequence[str | Path], optional: bool = False) -> None:
        """Start a program beside those that run; an optional one may fail."""
        self._log.write("$ " + " ".join(map(str, command)) + "\n")
        self._log.flush()
        program = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**pip_indexes(), **os.environ, **_VARIABLES},
        )
        self._running.append(program)
        if optional:
            self._optional.append(program)

    def run(self, command: Sequence[str | Path]) -> None:
        """Run a program to its end, beside those that run; StepError if one of them fails."""
        self.start(command)
        program = self._running[-1]
        while program in self._running:
            self._wait()

    def runs(self, command: Sequence[str | Path]) -> bool:
        """Run a program to its end, and return whether it succeeded."""
        try:
            self.run(command)
        except StepError:
            self._log.write("It failed: pip does it instead.\n")
            self._log.flush()
            return False
        return True

    def finish(self) -> None:
        """Wait for the programs that still run, and print the seconds; StepError if one of them fails."""
        while self._running:
            self._wait()
        self._show(f"{self._seconds():.0f} s")
        print(flush=True)

    def stop(self) -> None:
        """End the programs that still run."""
        for program in self._running:
            with contextlib.suppress(ProcessLookupError):
                program.terminate()
        for program in self._running:
            try:
                program.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                program.kill()

    def _wait(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._running[0].wait(0.2)
        for program in [one for one in self._running if one.poll() is not None]:
            self._running.remove(program)
            if program.returncode and program not in self._optional:
                raise StepError(f"a program ended with {program.returncode}")
        if sys.stdout.isatty():
            self._show(f"{self._seconds():.0f} s  {_last_line(self._log.name)}")

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _show(self, text: str) -> None:
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{f'{self._title} {text}'[:width]}\x1b[K", end="", flush=True)
        else:
            print(text, end="", flush=True)


def _last_line(log: str) -> str:
    with Path(log).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 500))
        lines = file.read().decode(errors="replace").split("\n")
    return "".join(character for character in (lines[-1] or lines[-2]).strip() if character.isprintable())


@functools.cache
def pip_indexes() -> dict[str, str]:
    """The indexes of pip's configuration as variables of uv, which does not read it."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    pip: dict[str, str] = {}
    for line in listed.splitlines():  # variables stand before files
        key, _, value = line.partition("=")
        pip.setdefault(key.rpartition(".")[2], value.strip("'\""))
    found = {
        "UV_DEFAULT_INDEX": pip.get("index-url", ""),
        "UV_INDEX": pip.get("extra-index-url", "").replace("\\n", " "),
        "UV_FIND_LINKS": ",".join(pip.get("find-links", "").replace("\\n", " ").split()),
        "UV_INSECURE_HOST": pip.get("trusted-host", "").replace("\\n", " "),
        "SSL_CERT_FILE": pip.get("cert", ""),
        # The hashes of the lock file decide what is installed, from whichever index it comes.
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    return {name: value for name, value in found.items() if value}


def install(options: argparse.Namespace, log: IO[str]) -> None:
    """All steps. StepError when a program fails; what was begun is taken up by the next call."""
    lock = options.lock.read_text(encoding="utf-8")
    programs = options.bin.absolute()  # a bare name would be looked up in PATH
    python = programs / "python"
    titles = _titles(options, lock)

    @contextlib.contextmanager
    def step() -> Iterator[Step]:
        one = Step(next(titles), log)
        try:
            yield one
            one.finish()
        finally:
            one.stop()

    with step() as one:
        one.run([options.python, "-m", "venv", _VENV])
    pip = [python, "-m", "pip", "install"]
    tools = _VENV / "build-requirements.txt"
    with step() as one:
        tools.write_text("".join(_TOOLS.findall(lock)))
        uv = one.runs([*pip, *_PIP, "-r", tools])
        if not uv:  # not every platform has it, nor does every index
            tools.write_text("".join(each for each in _TOOLS.findall(lock) if not each.startswith("uv==")))
            one.run([*pip, *_PIP, "-r", tools])
    # uv takes a package for installed when its metadata is there; after an interruption its files may not be.
    unfinished = _VENV / "unfinished"
    again = ["--reinstall"] if unfinished.exists() else []
    unfinished.touch()
    fast = [programs / "uv", "pip", "install", "--python", python]
    packages = ["--no-deps", "--no-build-isolation", "--require-hashes", "-r", options.lock]
    with step() as one:
        uv = uv and one.runs([*fast, *again, *packages])
        if not uv:  # pip reaches indexes that uv does not, by proxies and certificates of its configuration
            one.run(
                [*pip, "--disable-pip-version-check", *(["--force-reinstall"] if again else []), *packages]
            )
    with step() as one:
        one.run([*(fast if uv else pip), "--no-deps", "--no-build-isolation", "--editable", "."])
    unfinished.unlink()
    with step() as one:
        one.start([python, "-m", "daemon.what_if.precompile", *options.compiled])
        # It fails for packages with templates that are no Python, and is not to slow down what takes longest.
        compiling = [python, "-W", "ignore", "-m", "compileall", "-q", _packages()]
        one.start(["nice", *compiling], optional=True)
        for version in options.spark:
            one.run([programs / "stoker", "spark", "add", version])


def _titles(options: argparse.Namespace, lock: str) -> Iterator[str]:
    number = len(re.findall(r"^[a-z0-9-]+==", lock, re.MULTILINE))
    sparks = " and ".join(options.spark)
    last = f"Fetch Spark {sparks} with Java (500 MB each), and compile" if sparks else "Compile"
    titles = (
        f"Make {_VENV}",
        "Fetch the installer (uv)",
        f"Install the {number} packages of {options.lock}",
        "Install Stoker",
        last,
    )
    for index, title in enumerate(titles, 1):
        yield f"[{index}/{len(titles)}] {title}: "


def _packages() -> Path:
    return next(_VENV.glob("lib/*/site-packages"), _VENV)


def main() -> int:
    """Parse the Makefile's options and install; 1 if a program fails, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="The interpreter that .venv is made with.")
    parser.add_argument("--bin", type=Path, required=True, help="The folder of .venv's programs.")
    parser.add_argument("--lock", type=Path, required=True, help="The lock file to install.")
    parser.add_argument("--spark", type=str.split, required=True, help="Versions of Spark to fetch.")
    parser.add_argument("--compiled", type=str.split, required=True, help="Policies to compile for.")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    _VENV.mkdir(exist_ok=True)
    began = time.monotonic()
    with (_VENV / "install.log").open("w", encoding="utf-8", errors="replace") as log:
        try:
            install(options, log)
        except (StepError, OSError) as error:
            print(f"\nThis failed: {error}. The last lines of {log.name}:", flush=True)
            lines = Path(log.name).read_text(encoding="utf-8", errors="replace").splitlines()
            print("\n".join(f"    {line}" for line in lines[-_LAST_LINES:]))
            return 1
        except KeyboardInterrupt:
            print("\nInterrupted; `make install` goes on from here.")
            return 130
    print(f"Installed in {time.monotonic() - began:.0f} s. `make demo` runs three Spark jobs.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
