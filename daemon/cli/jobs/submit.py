"""The command `stoker submit`: maps flags to fields of a job, and reports the job's progress to its end."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from stoker.characters import visible

from conf.util.counted import counted
from daemon.cli.jobs.groups import ending, wait_for
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.fetching import Fetched, fetches, show
from daemon.cli.shared.options import Many, Output, notice, option

if TYPE_CHECKING:
    from stoker import Stoker


@fetches()
def submit(
    client: "Stoker",
    target: Annotated[
        str, typer.Argument(metavar="JOBFILE|APP", help="A job file (.yaml), a .py or a .jar.")
    ],
    arguments: Annotated[
        Many, typer.Argument(metavar="ARGS", help="The app's own: all that stands after it.")
    ] = None,
    executors: Annotated[
        str | None,
        option("--executors", "Number of executors, or auto, auto:2-16: Stoker chooses.", "N|auto"),
    ] = None,
    min_executors: Annotated[
        int | None, option("--min-executors", "Minimum number of executors to start with.", "N")
    ] = None,
    max_executors: Annotated[
        int | None,
        option("--max-executors", "Dynamic allocation: the driver requests up to N executors.", "N"),
    ] = None,
    cpus: Annotated[
        str | None, option("--cpus", "Cpus of one executor, or auto, auto:1-4.", "CPUS|auto")
    ] = None,
    min_cpus: Annotated[
        float | None,
        option("--min-cpus", "Minimum cpus of an executor; Stoker chooses up to --cpus.", "CPUS"),
    ] = None,
    memory: Annotated[
        str | None,
        option(
            "--memory",
            "Memory of one executor, overhead included: 896m, 2g, or auto, auto:2g-8g.",
            "SIZE|auto",
        ),
    ] = None,
    resource: Annotated[
        Many,
        option("--resource", "Further resources of an executor: gpus=1; can be repeated.", "NAME=AMOUNT"),
    ] = None,
    type: Annotated[str | None, option("--type", "Job type, such as wordcount.", "TYPE")] = None,  # noqa: A002 - the flag
    name: Annotated[str | None, option("--name", "Name of the job.", "NAME")] = None,
    owner: Annotated[
        str | None, option("--owner", "Owner of the job; by default the job file's, or you.", "NAME")
    ] = None,
    queue: Annotated[str | None, option("--queue", "Queue of the job.", "NAME")] = None,
    priority: Annotated[int | None, option("--priority", "Priority; higher runs earlier.", "N")] = None,
    after: Annotated[
        Many, option("--after", "Start after this job or group finished (ID:any: ended).", "ID|NAME")
    ] = None,
    start_at: Annotated[
        str | None, option("--start-at", "Earliest start: in 2h, or 2026-11-22T18:00Z.", "TIME")
    ] = None,
    group: Annotated[
        str | None, option("--group", "Group of jobs that are waited for and billed as one.", "NAME")
    ] = None,
    label: Annotated[
        Many, option("--label", "Label to filter jobs by: team=a; repeatable.", "NAME=VALUE")
    ] = None,
    count: Annotated[
        int | None, option("--count", "Submit an array of N jobs; {index} in an argument counts.", "N")
    ] = None,
    at_most: Annotated[
        int | None, option("--at-most", "Maximum jobs of the array that run at once.", "N")
    ] = None,
    deadline: Annotated[
        str | None, option("--deadline", "Time to finish by: in 2h, or 2026-11-22T18:00Z.", "TIME")
    ] = None,
    restartable: Annotated[
        bool | None,
        typer.Option(
            "--restartable/--no-restartable",
            help="Whether another job may preempt it, so that it restarts; by default yes.",
            show_default=False,
        ),
    ] = None,
    memory_retry: Annotated[
        bool | None,
        typer.Option(
            "--memory-retry/--no-memory-retry",
            help="Whether it restarts once with more memory if it had too little; by default if it has "
            "retries, or with --memory auto.",
            show_default=False,
        ),
    ] = None,
    main_class: Annotated[str | None, option("--class", "A jar's main class.", "CLASS")] = None,
    py_files: Annotated[Many, option("--py-files", "Python modules for the executors.", "A,B")] = None,
    files: Annotated[Many, option("--files", "Files for the executors.", "A,B")] = None,
    jars: Annotated[Many, option("--jars", "Jars for driver and executors.", "A,B")] = None,
    archives: Annotated[
        Many, option("--archives", "Unpacked for driver and executors: env.tar.gz#env.", "A,B")
    ] = None,
    packages: Annotated[
        Many, option("--packages", "Jars by Maven coordinates, with their dependencies.", "G:A:V,...")
    ] = None,
    repositories: Annotated[
        Many, option("--repositories", "Repositories to search first for packages.", "URL,URL")
    ] = None,
    conf: Annotated[Many, option("--conf", "A Spark setting; can be repeated.", "KEY=VALUE")] = None,
    env: Annotated[Many, option("--env", "An environment variable; can be repeated.", "NAME=VALUE")] = None,
    driver: Annotated[
        Literal["host", "cluster"] | None, option("--driver", "Where the driver runs: host or cluster.")
    ] = None,
    driver_memory: Annotated[
        str | None, option("--driver-memory", "Memory of the driver, overhead included: 1g.", "SIZE")
    ] = None,
    driver_cores: Annotated[
        float | None, option("--driver-cores", "Cpus of a driver on the cluster.", "CPUS")
    ] = None,
    spark: Annotated[
        str | None,
        option("--spark", "Spark version of the job, such as 3.5; else the default.", "NAME"),
    ] = None,
    spot: Annotated[
        Literal["never", "allowed", "only"] | None,
        option("--spot", "Whether its executors may be on spot VMs, or only there."),
    ] = None,
    retries: Annotated[
        int | None, option("--retries", "Number of restarts after a failed driver.", "N")
    ] = None,
    max_runtime: Annotated[
        float | None, option("--max-runtime", "Seconds after which the job fails.", "SECONDS")
    ] = None,
    max_cost: Annotated[
        float | None, option("--max-cost", "Dollars after which it gets no more executors.", "DOLLARS")
    ] = None,
    at_max_cost: Annotated[
        Literal["keep", "end"] | None,
        option("--at-max-cost", "Keep its running executors then, or end the job."),
    ] = None,
    idempotency_key: Annotated[
        str | None, option("--idempotency-key", "Submissions with the same key are one job.", "KEY")
    ] = None,
    upload: Annotated[
        bool | None,
        typer.Option(
            "--upload/--no-upload",
            help=(
                "Upload the files, or use the same paths on the daemon's host; by default they are uploaded "
                "to a daemon on another machine."
            ),
            show_default=False,
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the job has ended; exit 1 unless it finished.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check the job and show its placement, start and price; submit nothing."
        ),
    ] = False,
    output: Output = "table",
) -> Fetched | int:
    """Submit a Spark job: a job file, an app with flags, or both (flags take precedence).

    Arguments after an app are the app's, as with spark-submit; after a job file, those behind `--`.
    A relative path in a job file is from the file's folder, on the command line from the working folder.

    Example: stoker submit --executors 3 --memory 2g count.py s3a://logs/2026
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
        "restartable": restartable,
        "memory_retry": memory_retry,
        "after": _after(after),
        "start_at": start_at,
        "group": group,
        "count": count,
        "at_most": at_most,
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
        "max_cost": max_cost,
        "at_max_cost": at_max_cost,
    }
    given = {key: value for key, value in flags.items() if value is not None}
    pairs = {"conf": conf or [], "env": env or [], "label": label or [], "resource": resource or []}
    spec = _spec(target, arguments or [], given, pairs)
    if dry_run and wait:
        raise CommandError("--wait cannot be combined with --dry-run, which submits nothing")
    from daemon.cli.jobs.upload import is_here, upload_files

    uploads = upload or (upload is None and not is_here(client.settings.url))
    if dry_run:
        from daemon.cli.jobs.dry_run import try_out

        return try_out(client, spec, uploads=uploads)
    if uploads:
        spec = upload_files(client, spec, notice)
    job = client.submit_spec(spec, idempotency_key=idempotency_key)
    for warning in job["warnings"]:
        notice(warning)
    if not wait:
        return _submitted(job)
    if job["array"]:
        show(_submitted(job), "table")
        return wait_for(client, job["array"], output)
    return ending(_wait(client, job))


def _driver(on: str | None, memory: str | None, cpus: float | None) -> dict[str, Any] | None:
    """The driver that flags describe; where it runs, only a job file or the flag can say."""
    sizes = {"on": on, "memory": memory, "cpus": cpus}
    return {key: value for key, value in sizes.items() if value is not None} or None


def _executors(text: str | None, fewest: int | None, most: int | None) -> dict[str, Any]:
    """The flags about the number of executors as fields of a job: a number, auto, or bounds of it."""
    number = text if text is None or text.startswith("auto") else _number(text)
    if most is None:
        return {"executors": number, "min_executors": fewest}
    bounds = {"initial": number, "min": fewest, "max": most}
    return {"executors": {name: bound for name, bound in bounds.items() if bound is not None}}


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CommandError(f"--executors: should be a number or auto, found {text!r}") from None


def _cpus(text: str | None, fewest: float | None) -> float | str | dict[str, float] | None:
    """The flags about the cpus of an executor as a field of a job: a number, auto, or bounds of it."""
    if text is not None and text.startswith("auto"):
        if fewest is not None:
            raise CommandError("--min-cpus goes without --cpus auto: --cpus auto:MIN-MAX has bounds")
        return text
    try:
        number = None if text is None else float(text)
    except ValueError:
        raise CommandError(f"--cpus: should be a number or auto, found {text!r}") from None
    if fewest is None:
        return number
    return {"min": fewest} | ({} if number is None else {"max": number})


def _after(texts: Many) -> tuple[str | dict[str, str], ...] | None:
    """Values of --after: ids and names, each with :any behind it or not."""
    if texts is None:
        return None
    return tuple(
        {"job": text.removesuffix(":any"), "when": "any"} if text.endswith(":any") else text for text in texts
    )


def _listed(texts: Many) -> tuple[str, ...] | None:
    """Comma-separated values of a flag that can be repeated."""
    return None if texts is None else tuple(part for text in texts for part in text.split(",") if part)


def _spec(target: str, arguments: list[str], flags: dict[str, Any], pairs: dict[str, list[str]]) -> Any:
    from conf.loader import ConfigError
    from daemon.cli.shared.job_file import amounts, assignments, read_spec

    given: dict[str, Any] = {key: assignments(pairs[key], f"--{key}") for key in ("conf", "env")}
    given["labels"] = assignments(pairs["label"], "--label")
    given["resources"] = amounts(pairs["resource"], "--resource")
    spec = read_spec(target, arguments, flags | {key: value for key, value in given.items() if value})
    if "driver" in flags and spec.driver is not None and "on" not in spec.driver.model_fields_set:
        raise ConfigError("--driver-memory, --driver-cores: need --driver host or --driver cluster")
    return spec.model_dump(mode="json", exclude_unset=True)


def _submitted(job: Any) -> Fetched:
    def line(_: bool) -> Iterator[str]:
        from daemon.cli.shared import job_tables

        about = job_tables.job_line(job)
        if not job["array"]:
            yield f"Job {job['id']} ({job['name']}) submitted: {about}."
            return
        last = f"job-{int(job['id'].removeprefix('job-')) + job['count'] - 1}"
        jobs = f"{counted(job['count'], 'job')}, {job['id']} to {last}"
        yield f"Array {job['array']} ({job['name']}) of {jobs}, submitted; each: {about}."

    return Fetched(job, line)


def _wait(client: "Stoker", submitted: Any) -> Any:
    """Print the changes of the job on stderr until it has ended."""
    from daemon.cli.shared import follow, job_tables, render

    console = render.console(stderr=True)
    job = submitted
    console.print(visible(f"Job {job['id']} ({job['name']}): {job_tables.job_line(job)}"))
    try:
        with console.status("waiting ...") as status:
            for job in follow.changes(client, submitted["id"], notice):
                line = render.plain(job_tables.change_line(job))
                console.print(line)
                status.update(f"{job['state']} ...")
    except KeyboardInterrupt:
        console.print(f"The job continues; `stoker kill {submitted['id']}` ends it.")
        raise
    return job
