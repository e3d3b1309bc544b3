"""The commands about jobs: submit, jobs, job, logs, kill, explain."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from conf.characters import visible, visible_json
from daemon.cli.errors import CommandError
from daemon.cli.shared_options import DEFAULT_URL, Ca, JobId, Output, TokenFile, Url, connect, print_json
from environment.model.states import JobState

if TYPE_CHECKING:
    from daemon.cli.client import Client

_Many = list[str] | None


def _option(flag: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(flag, help=text, metavar=metavar, show_default=False)


def submit(
    target: Annotated[
        str, typer.Argument(metavar="JOBFILE|APP", help="A job file (.yaml), a .py or a .jar.")
    ],
    arguments: Annotated[
        _Many, typer.Argument(metavar="ARGS", help="The app's own: all that stands after it.")
    ] = None,
    executors: Annotated[int | None, _option("--executors", "How many executors.", "N")] = None,
    min_executors: Annotated[
        int | None, _option("--min-executors", "It also runs on so few of them.", "N")
    ] = None,
    max_executors: Annotated[
        int | None,
        _option("--max-executors", "Its driver asks for executors while it runs, for so many at most.", "N"),
    ] = None,
    cpus: Annotated[float | None, _option("--cpus", "Cpus of one executor.", "CPUS")] = None,
    min_cpus: Annotated[
        float | None, _option("--min-cpus", "It also runs with so few: Stoker chooses up to --cpus.", "CPUS")
    ] = None,
    memory: Annotated[
        str | None, _option("--memory", "Memory of one executor, overhead included: 896m, 2g.", "SIZE")
    ] = None,
    resource: Annotated[
        _Many, _option("--resource", "What else an executor takes: gpus=1; can be repeated.", "NAME=AMOUNT")
    ] = None,
    type: Annotated[str | None, _option("--type", "Job type, such as wordcount.", "TYPE")] = None,  # noqa: A002 - the flag
    name: Annotated[str | None, _option("--name", "What to call the job.", "NAME")] = None,
    owner: Annotated[
        str | None, _option("--owner", "Whose job it is; else the job file's, or your login name.", "NAME")
    ] = None,
    queue: Annotated[str | None, _option("--queue", "Which queue it belongs to.", "NAME")] = None,
    priority: Annotated[
        int | None, _option("--priority", "How it stands beside others: the higher, the earlier.", "N")
    ] = None,
    deadline: Annotated[
        str | None, _option("--deadline", "By when it should be over: in 2h, or 2026-11-22T18:00Z.", "TIME")
    ] = None,
    main_class: Annotated[str | None, _option("--class", "A jar's main class.", "CLASS")] = None,
    py_files: Annotated[_Many, _option("--py-files", "Python modules for the executors.", "A,B")] = None,
    files: Annotated[_Many, _option("--files", "Files for the executors.", "A,B")] = None,
    jars: Annotated[_Many, _option("--jars", "Jars for driver and executors.", "A,B")] = None,
    archives: Annotated[
        _Many, _option("--archives", "Unpacked for driver and executors: env.tar.gz#env.", "A,B")
    ] = None,
    packages: Annotated[
        _Many, _option("--packages", "Jars by Maven coordinates, with what they need.", "G:A:V,...")
    ] = None,
    repositories: Annotated[
        _Many, _option("--repositories", "Where packages are looked for first.", "URL,URL")
    ] = None,
    conf: Annotated[_Many, _option("--conf", "A Spark setting; can be repeated.", "KEY=VALUE")] = None,
    env: Annotated[_Many, _option("--env", "An environment variable; can be repeated.", "NAME=VALUE")] = None,
    driver: Annotated[
        Literal["host", "cluster"] | None, _option("--driver", "Where the driver runs: host or cluster.")
    ] = None,
    driver_memory: Annotated[
        str | None, _option("--driver-memory", "Memory of the driver, overhead included: 1g.", "SIZE")
    ] = None,
    driver_cores: Annotated[
        float | None, _option("--driver-cores", "Cpus of a driver on the cluster.", "CPUS")
    ] = None,
    spark: Annotated[
        str | None, _option("--spark", "Which Spark runs it, such as 3.5; else the default one.", "NAME")
    ] = None,
    spot: Annotated[
        Literal["never", "allowed", "only"] | None,
        _option("--spot", "Whether its executors may be on spot VMs, or only there."),
    ] = None,
    retries: Annotated[
        int | None, _option("--retries", "How often a driver that failed is started again.", "N")
    ] = None,
    max_runtime: Annotated[
        float | None, _option("--max-runtime", "Seconds after which the job fails.", "SECONDS")
    ] = None,
    idempotency_key: Annotated[
        str | None, _option("--idempotency-key", "Submissions with one key are one job.", "KEY")
    ] = None,
    upload: Annotated[
        bool | None,
        typer.Option(
            "--upload/--no-upload",
            help="Send the files, or say that the daemon has them at the same paths; without either they are "
            "sent to a daemon on another machine.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Stay until the job has ended; exit 1 unless it finished.")
    ] = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> int:
    """Submit a Spark job: a job file, an app with flags, or both (flags take precedence).

    What stands after an app is the app's, as with spark-submit; after a job file, what stands behind `--`.
    """
    flags: dict[str, Any] = {
        **_executors(executors, min_executors, max_executors),
        "cpus": _cpus(cpus, min_cpus),
        "memory": memory,
        "type": type,
        "name": name,
        "owner": owner,
        "queue": queue,
        "priority": priority,
        "deadline": deadline,
        "main_class": main_class,
        "py_files": _listed(py_files),
        "files": _listed(files),
        "jars": _listed(jars),
        "archives": _listed(archives),
        "packages": _listed(packages),
        "repositories": _listed(repositories),
        "driver": _driver(driver, driver_memory, driver_cores),
        "spark": spark,
        "spot": spot,
        "retries": retries,
        "max_runtime": max_runtime,
    }
    given = {key: value for key, value in flags.items() if value is not None}
    pairs = {"conf": conf or [], "env": env or [], "resource": resource or []}
    spec = _spec(target, arguments or [], given, pairs)
    with connect(url, token_file, ca) as client:
        from daemon.cli.uploading import is_here, upload_files

        if upload or (upload is None and not is_here(url)):
            spec = upload_files(client, spec, _notice)
        job = client.submit(spec, idempotency_key)
        if not wait:
            _print_submitted(job, output)
            return 0
        job = _wait(client, job)
        _print_ended(job, output)
    return 0 if job["state"] == "finished" else 1


def jobs(
    state: Annotated[JobState | None, typer.Option("--state", help="Only jobs in this state.")] = None,
    owner: Annotated[
        str | None, _option("--owner", "Only jobs of this owner; '' finds those without one.", "NAME")
    ] = None,
    queue: Annotated[str | None, _option("--queue", "Only jobs in this queue.", "NAME")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many, the newest first.")] = 50,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """List jobs, the newest first."""
    with connect(url, token_file, ca) as client:
        answer = client.jobs(state, limit, owner, queue)
    if output == "json":
        print_json(answer)
        return
    from daemon.cli import render, views

    render.show(views.jobs(answer["jobs"]))


def job(
    job_id: JobId,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """Show one job and its executors."""
    with connect(url, token_file, ca) as client:
        answer = client.job(job_id)
    if output == "json":
        print_json(answer)
        return
    from daemon.cli import render, views

    if answer.get("ui"):
        answer["ui"] = url.rstrip("/") + answer["ui"]
    render.show(*views.job(answer))


def logs(
    job_id: JobId,
    executor: Annotated[
        int | None, typer.Option("--executor", metavar="N", help="This executor's, not the driver's.")
    ] = None,
    stderr: Annotated[
        bool | None,
        typer.Option("--stderr/--stdout", help="Which of the two; else stdout, or stderr if that is empty."),
    ] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """Print the driver's log, or an executor's; as JSON, an object per line for each part."""
    from daemon.cli import watch

    told: set[str] = set()

    def notice(text: str) -> None:
        if text not in told:
            told.add(text)
            _notice(text)

    whose = "the driver" if executor is None else f"executor {executor}"
    with connect(url, token_file, ca) as client:
        for stream in ("stdout", "stderr") if stderr is None else ("stderr" if stderr else "stdout",):
            printed = False
            for part in watch.log(client, job_id, executor, stream, follow, notice):
                if stderr is None and stream == "stderr" and not printed:
                    notice(f"{whose} printed nothing to stdout; this is its stderr")
                printed = True
                if output == "json":
                    print(visible_json(json.dumps({"stream": stream, **part}, ensure_ascii=False)))
                else:
                    sys.stdout.write(part["text"])
                sys.stdout.flush()
            if printed:
                return


def kill(
    job_id: JobId,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """End a job."""
    from daemon.cli.watch import ENDED

    with connect(url, token_file, ca) as client:
        answer = client.kill(job_id)
    if output == "json":
        print_json(answer)
    elif answer["state"] in ENDED:
        print(f"Job {answer['id']} has ended: {answer['state']}.")
    else:
        print(f"Job {answer['id']} is being ended; `stoker job {answer['id']}` shows when it has.")


def decommission(
    job_id: JobId,
    executors: Annotated[
        list[int], typer.Argument(metavar="EXECUTOR...", help="Their numbers, as `stoker job` shows them.")
    ],
    reason: Annotated[str, _option("--reason", "Why, for whoever looks at them.", "TEXT")] = "",
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """Have a job's driver give executors up, once their blocks are elsewhere.

    That costs the job no failure; if it still wants as many executors, the policy places others.
    """
    with connect(url, token_file, ca) as client:
        answer = client.decommission(job_id, executors, reason)
    if output == "json":
        print_json(answer)
        return
    from daemon.cli import render

    numbers = ", ".join(map(str, executors))
    noun = render.count(len(executors), "executor").partition(" ")[2]
    print(f"The driver of {answer['id']} gives {noun} {numbers} up; `stoker job {answer['id']}` shows it.")


def explain(
    job_id: JobId,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """Say why a job's executors are where they are, or why it waits."""
    with connect(url, token_file, ca) as client:
        answer = client.explain(job_id)
    if output == "json":
        print_json(answer)
        return
    from daemon.cli import render, views

    render.show(*views.explanation(answer))


def _driver(on: str | None, memory: str | None, cpus: float | None) -> dict[str, Any] | None:
    """The driver that flags describe; where it runs, only a job file or the flag can say."""
    sizes = {"on": on, "memory": memory, "cpus": cpus}
    return {key: value for key, value in sizes.items() if value is not None} or None


def _executors(number: int | None, fewest: int | None, most: int | None) -> dict[str, Any]:
    """The flags about the number of executors as fields of a job: a number, or bounds of it."""
    if most is None:
        return {"executors": number, "min_executors": fewest}
    bounds = {"initial": number, "min": fewest, "max": most}
    return {"executors": {name: bound for name, bound in bounds.items() if bound is not None}}


def _cpus(number: float | None, fewest: float | None) -> float | dict[str, float] | None:
    """The flags about the cpus of an executor as a field of a job: a number, or bounds of it."""
    if fewest is None:
        return number
    return {"min": fewest} | ({} if number is None else {"max": number})


def _listed(texts: _Many) -> tuple[str, ...] | None:
    """Comma-separated values of a flag that can be repeated."""
    return None if texts is None else tuple(part for text in texts for part in text.split(",") if part)


def _spec(target: str, arguments: list[str], flags: dict[str, Any], pairs: dict[str, list[str]]) -> Any:
    from conf.loader import ConfigError
    from daemon.cli.jobfile import amounts, assignments, login_name, read_spec

    try:
        given: dict[str, Any] = {key: assignments(pairs[key], f"--{key}") for key in ("conf", "env")}
        given["resources"] = amounts(pairs["resource"], "--resource")
        spec = read_spec(target, arguments, flags | {key: value for key, value in given.items() if value})
        if "driver" in flags and spec.driver is not None and "on" not in spec.driver.model_fields_set:
            raise ConfigError("--driver-memory, --driver-cores: go with --driver host or --driver cluster")
    except ConfigError as error:
        raise CommandError(str(error)) from None
    return {"owner": login_name(), **spec.model_dump(mode="json", exclude_unset=True)}


def _print_submitted(job: Any, output: str) -> None:
    if output == "json":
        print_json(job)
        return
    from daemon.cli import views

    print(visible(f"Job {job['id']} ({job['name']}) submitted: {views.job_line(job)}."))


def _print_ended(job: Any, output: str) -> None:
    if output == "json":
        print_json(job)
        return
    from daemon.cli import render, views

    render.show(views.ending(job))


def _wait(client: "Client", submitted: Any) -> Any:
    """Say on stderr what happens to the job until it has ended."""
    from daemon.cli import render, views, watch

    console = render.console(stderr=True)
    job = submitted
    console.print(visible(f"Job {job['id']} ({job['name']}): {views.job_line(job)}"))
    try:
        with console.status("waiting ...") as status:
            for job in watch.changes(client, submitted["id"], _notice):
                line = render.plain(views.change_line(job))
                console.print(line)
                status.update(f"{job['state']} ...")
    except KeyboardInterrupt:
        console.print(f"The job goes on; `stoker kill {submitted['id']}` ends it.")
        raise
    return job


def _notice(text: str) -> None:
    print(f"stoker: {visible(text)}", file=sys.stderr, flush=True)
