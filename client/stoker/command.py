"""`python -m stoker COMMAND`: the client's commands for scripts, with exit codes.

The daemon is at `--url` or `STOKER_URL`. Its token is in the file named by `--token-file` or
`STOKER_TOKEN_FILE`, and never an argument.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from stoker.characters import visible
from stoker.client import Stoker
from stoker.errors import StokerError
from stoker.log_lines import LogText

BAD_INPUT, INTERRUPTED = 2, 130
_ENDED = ("finished", "failed", "killed")


def main(arguments: Sequence[str]) -> int:
    """Run one command; its exit code: 1 for a job that did not finish, 2 for bad input or no daemon."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: say(str(message))
        try:
            if arguments[:1] == ["spark-submit"]:
                from stoker.spark_submit import spark_submit

                return spark_submit(arguments[1:], os.environ)
            given = _parser().parse_args(arguments)
            run: Callable[[argparse.Namespace], int] = given.run
            code = run(given)
            sys.stdout.flush()
        except StokerError as error:
            say(str(error))
            return BAD_INPUT
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:
            # The reader has gone; what is still buffered must not be tried again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        return code


def say(text: str) -> None:
    """Say something to the user, on stderr."""
    for line in text.splitlines():
        print(f"stoker: {visible(line)}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m stoker", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        made.set_defaults(run=run)
        made.add_argument("--url", help="where the daemon is (STOKER_URL)")
        made.add_argument("--token-file", metavar="FILE", help="with the daemon's token (STOKER_TOKEN_FILE)")
        made.add_argument("--ca", metavar="FILE", help="authority of the daemon's certificate (STOKER_CA)")
        made.add_argument("-o", "--output", choices=("table", "json"), default="table")
        return made

    _add_submit(command("submit", _submit, "Submit a job; arguments after the app belong to the app."))
    # It has a parser of its own; here it is only listed.
    commands.add_parser("spark-submit", help="As Spark's own: the same flags, no Spark and no Java.")
    waiting = command("wait", _wait, "Wait for a job's end; exit 1 unless it finished.")
    waiting.add_argument("job", metavar="ID")
    waiting.add_argument("--timeout", type=float, metavar="SECONDS", help="exit 3 after this time")
    logs = command("logs", _logs, "Print the log of a job's driver or executor.")
    logs.add_argument("job", metavar="ID")
    logs.add_argument("--executor", type=int, metavar="N", help="this executor's, not the driver's")
    logs.add_argument("--stderr", action="store_true", help="its stderr")
    logs.add_argument(
        "--level",
        choices=("off", "error", "warn", "info"),
        help="print only Spark lines of this level and above; off: none",
    )
    logs.add_argument(
        "--raw",
        action="store_true",
        help="print the log unchanged, even on a terminal: escapes take effect",
    )
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended")
    jobs = command("jobs", _jobs, "List jobs, the newest first.")
    for name in ("state", "owner", "queue"):
        jobs.add_argument(f"--{name}", action="append", default=[], metavar=name.upper())
    jobs.add_argument("--limit", type=int, default=50, metavar="N")
    for name, run, text in (
        ("job", _job, "Show a job and its executors, as JSON."),
        ("explain", _explain, "Print the reasons for a job's placement or wait, as JSON."),
        ("kill", _kill, "End a job."),
    ):
        command(name, run, text).add_argument("job", metavar="ID")
    return parser


def _add_submit(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--executors",
        type=_or_auto(int),
        metavar="N|auto",
        help="number of executors, or auto, auto:2-16: Stoker chooses",
    )
    add("--min-executors", type=int, metavar="N", help="minimum number of executors to start with")
    add("--cpus", type=_or_auto(float), metavar="CPUS|auto", help="cpus of one executor, or auto, auto:1-4")
    add("--memory", metavar="SIZE|auto", help="memory of one executor, overhead included: 896m, 2g, or auto")
    for name in ("name", "type", "owner", "queue", "spark"):
        add(f"--{name}", metavar=name.upper())
    add("--priority", type=int, metavar="N", help="priority; higher runs earlier")
    add("--deadline", metavar="TIME", help="by when it should be over: in 2h, or 2026-11-22T18:00Z")
    add("--class", dest="main_class", metavar="CLASS", help="a jar's main class")
    for name in ("py-files", "files", "jars", "archives", "packages", "repositories"):
        add(f"--{name}", action="append", metavar="A,B")
    add("--conf", action="append", metavar="KEY=VALUE", help="a Spark setting; can be repeated")
    add("--env", action="append", metavar="NAME=VALUE", help="an environment variable; can be repeated")
    add("--driver", choices=("host", "cluster"), help="where the driver runs")
    add("--spot", choices=("never", "allowed", "only"), help="whether its executors may run on spot VMs")
    add("--max-runtime", type=float, metavar="SECONDS", help="after which the job fails")
    add("--max-cost", type=float, metavar="DOLLARS", help="after which it gets no more executors")
    add("--at-max-cost", choices=("keep", "end"), help="whether its running executors go on then")
    add("--idempotency-key", metavar="KEY", help="submissions with one key are one job")
    add("--no-upload", action="store_true", help="the daemon has the files at the same paths")
    add("--wait", action="store_true", help="stay until the job has ended; exit 1 unless it finished")
    add("app", metavar="APP", help="a .py or a .jar")
    add("args", nargs=argparse.REMAINDER, metavar="ARGS", help="the app's own")


_MORE_OPTIONS = ("spot", "main_class", "max_runtime", "max_cost", "at_max_cost")


def _or_auto(number: Callable[[str], float]) -> Callable[[str], float | str]:
    """Reader of an option: a number, or a text that leaves the number to Stoker."""

    def read(text: str) -> float | str:
        if text.startswith("auto"):
            return text
        try:
            return number(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"should be a number or auto, found {text!r}") from None

    return read


def _submit(given: argparse.Namespace) -> int:
    if given.app.endswith((".yaml", ".yml")):
        raise StokerError(
            f"{given.app}: job files are read by the daemon's own `stoker submit`; give the app"
        )
    sizes = ("executors", "min_executors", "cpus", "memory")
    plain = (*sizes, "name", "type", "owner", "queue", "priority", "deadline", "spark")
    options = {name: getattr(given, name) for name in (*plain, *_MORE_OPTIONS)}
    for name in ("py_files", "files", "jars", "archives", "packages", "repositories"):
        if (texts := getattr(given, name)) is not None:
            options[name] = [part for text in texts for part in text.split(",") if part]
    options["conf"] = _pairs(given.conf, "--conf")
    options["env"] = _pairs(given.env, "--env")
    options["driver"] = None if given.driver is None else {"on": given.driver}
    options["args"] = given.args[1:] if given.args[:1] == ["--"] else given.args
    options = {name: value for name, value in options.items() if value not in (None, [], {})}
    with _client(given) as client:
        job: Mapping[str, Any] = client.submit(
            given.app, upload=not given.no_upload, idempotency_key=given.idempotency_key, **options
        )
        for warning in job["warnings"]:
            say(warning)
        if not given.wait:
            return _show(given, job, f"Job {job['id']} ({job['name']}) submitted.")
        say(f"job {job['id']} ({job['name']}) submitted; waiting for its end")
        try:
            return _ended(given, client.wait(job["id"]))
        except KeyboardInterrupt:
            say(f"the job continues; `python -m stoker kill {job['id']}` ends it")
            raise


def _wait(given: argparse.Namespace) -> int:
    with _client(given) as client:
        try:
            return _ended(given, client.wait(given.job, given.timeout))
        except TimeoutError as error:
            say(str(error))
            return 3


def _logs(given: argparse.Namespace) -> int:
    as_json = given.output == "json"
    shown = LogText(given.level, escape=not as_json and not given.raw and sys.stdout.isatty())

    def write(text: str) -> None:
        if text:
            sys.stdout.write(json.dumps({"text": text}) + "\n" if as_json else text)
            sys.stdout.flush()

    with _client(given) as client:
        stream: Literal["stdout", "stderr"] = "stderr" if given.stderr else "stdout"
        for text in client.logs(given.job, executor=given.executor, stream=stream, follow=given.follow):
            write(shown.add(text))
    write(shown.end())
    return 0


def _jobs(given: argparse.Namespace) -> int:
    with _client(given) as client:
        found = client.jobs(state=given.state, owner=given.owner, queue=given.queue, limit=given.limit)
    if given.output == "json":
        return _show(given, found, "")
    for job in found["jobs"]:
        columns = (job["id"], job["name"], job["state"], f"${job['cost']:.4f}", job["reason"])
        print(visible("  ".join(columns)))
    return 0


def _job(given: argparse.Namespace) -> int:
    with _client(given) as client:
        return _show(given, client.job(given.job))


def _explain(given: argparse.Namespace) -> int:
    with _client(given) as client:
        return _show(given, client.explain(given.job))


def _kill(given: argparse.Namespace) -> int:
    with _client(given) as client:
        job = client.kill(given.job)
    over = f"has ended: {job['state']}" if job["state"] in _ENDED else "is being ended"
    return _show(given, job, f"Job {job['id']} {over}.")


def _ended(given: argparse.Namespace, job: Mapping[str, Any]) -> int:
    reason = f": {job['reason']}" if job["reason"] else ""
    _show(given, job, f"Job {job['id']} ({job['name']}) {job['state']}{reason}; ${job['cost']:.4f}.")
    return 0 if job["state"] == "finished" else 1


def _show(given: argparse.Namespace, answer: Mapping[str, Any], text: str = "") -> int:
    print(visible(text) if text and given.output != "json" else json.dumps(answer, indent=2))
    return 0


def _client(given: argparse.Namespace) -> Stoker:
    return Stoker(given.url, given.token_file, given.ca)


def _pairs(texts: Sequence[str] | None, flag: str) -> dict[str, str]:
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise StokerError(f"{flag}: should be key=value, found {text!r}")
        found[key] = value
    return found
