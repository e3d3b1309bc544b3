"""Installs Stoker into .venv in numbered steps: `make install` runs it, on the standard library alone.

The Makefile passes the lock file, the Spark versions and the policies to compile for. pip installs uv, and uv
the packages by the lock file's hashes: first those that serve, then the others while Spark is fetched and
kernels are compiled beside them. Where uv is not to be had, or fails, pip installs the packages. The output
of these programs goes to `.venv/install.log`.
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
#: What a serving daemon needs: a part of requirements.lock, at the same versions.
_SERVING = Path("requirements-serve.lock")
#: MB to download, by lock file, and for each Spark with its Java.
_MEGABYTES = {"requirements-serve.lock": 190, "requirements.lock": 800}
_SPARK_MEGABYTES = 490


class TimeLeft:
    """Seconds until the installation ends, by the expected ones of its steps and the pace so far."""

    def __init__(self, expected: Sequence[float]) -> None:
        """`expected`: seconds of each step, on two cores that are otherwise idle."""
        self._expected, self._began, self._over = expected, time.monotonic(), 0

    def finish_step(self) -> None:
        """Count a step as over."""
        self._over += 1

    def text(self, seconds: float = 0.0) -> str:
        """In words, when the present step has taken this long."""
        before = sum(self._expected[: self._over])
        pace = (time.monotonic() - self._began - seconds) / before if before else 1.0
        # Chosen: a step that takes longer than expected takes a fifth of what it took, or a second, more.
        present = max(self._expected[self._over] * pace - seconds, seconds / 5, 1.0)
        left = present + sum(self._expected[self._over + 1 :]) * pace
        return f"about {left:.0f} s left" if left < 100 else f"about {left / 60:.0f} min left"


class StepError(Exception):
    """A program of a step failed."""


class Step:
    """One step: runs programs, also side by side, and shows its seconds and the time left."""

    def __init__(self, title: str, log: IO[str], left: TimeLeft) -> None:
        self._title, self._log, self._left, self._began = title, log, left, time.monotonic()
        self._running: list[subprocess.Popen[bytes]] = []
        self._optional: list[subprocess.Popen[bytes]] = []
        log.write(f"\n== {title}\n")
        log.flush()
        print(title, end=f" {left.text()} ... ", flush=True)

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
        """Run a program to its end, and return whether it succeeded; StepError if one beside it fails."""
        self.start(command, optional=True)
        program = self._running[-1]
        while program in self._running:
            self._wait()
        if program.returncode:
            self._log.write("It failed: pip does it instead.\n")
            self._log.flush()
        return not program.returncode

    def finish(self) -> None:
        """Wait for the programs that still run, and print the seconds; StepError if one of them fails."""
        while self._running:
            self._wait()
        self._left.finish_step()
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
            seconds = self._seconds()
            self._show(f"{seconds:.0f} s, {self._left.text(seconds)}  {_last_line(self._log.name)}")

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
    programs = options.bin.absolute()  # a bare name would be looked up in PATH
    python = programs / "python"
    plan = _plan(options)
    titles = (f"[{index}/{len(plan)}] {title}:" for index, (title, _) in enumerate(plan, 1))
    left = TimeLeft([seconds for _, seconds in plan])

    @contextlib.contextmanager
    def step() -> Iterator[Step]:
        one = Step(next(titles), log, left)
        try:
            yield one
            one.finish()
        finally:
            one.stop()

    with step() as one:
        one.run([options.python, "-m", "venv", _VENV])
    pip = [python, "-m", "pip", "install"]
    tools, listed = _VENV / "build-requirements.txt", _TOOLS.findall(options.lock.read_text(encoding="utf-8"))
    with step() as one:
        tools.write_text("".join(listed))
        uv = one.runs([*pip, *_PIP, "-r", tools])
        if not uv:  # not every platform has it, nor does every index
            tools.write_text("".join(each for each in listed if not each.startswith("uv==")))
            one.run([*pip, *_PIP, "-r", tools])
    # uv takes a package for installed when its metadata is there; after an interruption its files may not be.
    unfinished = _VENV / "unfinished"
    again = unfinished.exists()
    unfinished.touch()
    fast = [programs / "uv", "pip", "install", "--python", python]

    def install_packages(one: Step, lock: Path, again: bool = False) -> bool:
        """Whether uv did it. pip reaches indexes that uv does not, by proxies and certificates."""
        packages = ("--no-deps", "--no-build-isolation", "--require-hashes", "-r", lock)
        if uv and one.runs([*fast, *(("--reinstall",) if again else ()), *packages]):
            return True
        options_of_pip = ("--disable-pip-version-check", *(("--force-reinstall",) if again else ()))
        one.run([*pip, *options_of_pip, *packages])
        return False

    with step() as one:
        uv = install_packages(one, options.lock if again else _SERVING, again)
        one.run([*(fast if uv else pip), "--no-deps", "--no-build-isolation", "--editable", "."])
    with step() as one:
        for version in options.spark:
            one.start([programs / "stoker", "spark", "add", version])
        one.start([python, "-m", "daemon.what_if.precompile", *options.compiled])
        # Bytecode of what serves: it lists its folders at once, before the other packages come. It fails for
        # packages with templates that are no Python, and is not to slow down what takes longest.
        compiling = [python, "-W", "ignore", "-m", "compileall", "-q", _packages()]
        one.start(["nice", *compiling], optional=True)
        if options.lock != _SERVING:
            install_packages(one, options.lock)
        unfinished.unlink()


def _plan(options: argparse.Namespace) -> list[tuple[str, float]]:
    """Title and expected seconds of each step."""
    count = _count(_SERVING)
    sparks = [version for version in options.spark if not (_VENV / "share/stoker/spark" / version).exists()]
    last, seconds = [], 0.0
    if more := _count(options.lock) - count:
        size = _MEGABYTES["requirements.lock"] - _MEGABYTES[_SERVING.name]
        last.append(f"install {more} packages to train and test ({size} MB)")
        seconds = 20.0
    if options.spark:
        size = len(sparks) * _SPARK_MEGABYTES
        last.append(f"fetch Spark {' and '.join(options.spark)} with Java ({size} MB)")
        seconds = max(seconds, 55.0 * len(sparks))
    last.append("compile")
    text = ", ".join(last)
    return [
        (f"Make {_VENV}", 4.0),
        ("Fetch the installer (uv, 20 MB)", 4.0),
        (f"Install Stoker and the {count} packages that serve ({_MEGABYTES[_SERVING.name]} MB)", 7.0),
        (text[0].upper() + text[1:], max(seconds, 30.0)),
    ]


def _count(lock: Path) -> int:
    return len({*re.findall(r"^[a-z0-9-]+==", lock.read_text(encoding="utf-8"), re.MULTILINE)})


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
