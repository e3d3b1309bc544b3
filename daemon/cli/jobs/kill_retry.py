"""Commands on submitted jobs: kill, retry, decommission."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from stoker.errors import StokerError

from conf.uploaded_file import uploaded
from conf.util.secret_masking import MASK
from daemon.cli.jobs.groups import is_group, named
from daemon.cli.shared.errors import BAD_INPUT, CommandError
from daemon.cli.shared.fetching import Fetched, fetches, show
from daemon.cli.shared.options import JobId, JobIds, Many, Output, notice, option

if TYPE_CHECKING:
    from stoker import Stoker

#: Fields about the job's start and its array, which are over.
_ONCE = ("after", "start_at", "count", "at_most")


@fetches()
def kill(client: "Stoker", job_ids: JobIds, output: Output = "table") -> int:
    """End jobs; of a group or an array, all of its jobs.

    Example: stoker jobs --user ann --state queued -o name | xargs stoker kill
    """
    code = 0
    for job_id in job_ids:
        try:
            show(_kill(client, named(client, job_id)), output)
        except (CommandError, StokerError) as error:
            if len(job_ids) == 1:
                raise
            notice(f"{job_id}: {error}")
            code = BAD_INPUT
    return code


def _kill(client: "Stoker", job_id: str) -> Fetched:
    from daemon.cli.shared.follow import ENDED

    group = is_group(job_id)
    if group:
        _check_meaning(client, job_id)
    answer = client.kill_group(job_id) if group else client.kill(job_id)
    ended = f"{'Group' if group else 'Job'} {answer['id']}"
    if answer["state"] in ENDED:
        return Fetched(answer, f"{ended} has ended: {answer['state']}.")
    shows = f"`stoker job {answer['id']}` shows when it has"
    return Fetched(answer, f"{ended} is being ended; {shows}.")


def _check_meaning(client: "Stoker", group: str) -> None:
    """Raise CommandError where a job outside of the group, which has not ended, has its name."""
    from daemon.cli.shared.follow import ENDED

    try:
        job = client.job(group)
    except StokerError:  # there is none, or more than one
        return
    if job["state"] not in ENDED and group not in (job["group"], job["array"]):
        raise CommandError(
            f"{group} is a group, and {job['id']} is called so, too: give the job's id, or the ids of the "
            f"group's jobs (`stoker jobs --group {group} -o name`)"
        )


@fetches()
def retry(
    client: "Stoker",
    job_id: JobId,
    executors: Annotated[int | None, option("--executors", "How many executors.", "N")] = None,
    cpus: Annotated[float | None, option("--cpus", "Cpus of one executor.", "CPUS")] = None,
    memory: Annotated[
        str | None, option("--memory", "Memory of one executor, overhead included: 896m, 2g.", "SIZE")
    ] = None,
    conf: Annotated[
        Many, option("--conf", "A property of Spark beside the job's own; can be repeated.", "KEY=VALUE")
    ] = None,
    queue: Annotated[str | None, option("--queue", "Queue of the job.", "NAME")] = None,
    priority: Annotated[int | None, option("--priority", "Priority; higher runs earlier.", "N")] = None,
    retries: Annotated[
        int | None, option("--retries", "Number of restarts after a failed driver.", "N")
    ] = None,
    max_runtime: Annotated[
        float | None, option("--max-runtime", "Seconds after which the job fails.", "SECONDS")
    ] = None,
    max_cost: Annotated[
        float | None, option("--max-cost", "Dollars after which it gets no more executors.", "DOLLARS")
    ] = None,
) -> Fetched:
    """Submit a job again as a new job and print its id; flags change its fields.

    The new job does not wait for the jobs that the first one came after; of an array it is the one job. A job
    with lost files, or with secret settings that the daemon does not show, has to be submitted anew.

    Example: stoker retry job-7 --memory 4g
    """
    flags = {
        "executors": executors,
        "cpus": cpus,
        "memory": memory,
        "queue": queue,
        "priority": priority,
        "retries": retries,
        "max_runtime": max_runtime,
        "max_cost": max_cost,
    }
    job = client.job(job_id)
    job_id = job["id"]
    spec = _again(job, {key: value for key, value in flags.items() if value is not None})
    spec["conf"] = {**spec.get("conf", {}), **_settings(conf or [])}
    _check_uploads(client, job_id, spec)
    made = client.submit_spec(spec)

    def line(_: bool) -> Iterator[str]:
        from daemon.cli.shared import job_tables

        yield f"Job {made['id']} ({made['name']}) submitted, as {job_id} was: {job_tables.job_line(made)}."

    return Fetched(made, line)


def _again(job: Any, flags: dict[str, Any]) -> dict[str, Any]:
    """The submitted spec of a job merged with the flags; CommandError where a resubmission is impossible."""
    spec, job_id = job["spec"], job["id"]
    if spec is None:
        raise CommandError(f"{job_id}: the daemon has lost the submission: submit it again")
    if not spec["app"]:
        raise CommandError(f"{job_id}: its driver was its user's own: start that again")
    if MASK in json.dumps(spec):
        raise CommandError(f"{job_id}: it has secrets that the daemon does not show: submit it anew")
    if "executors" in flags and flags["executors"] < (spec["min_executors"] or 1):
        flags["min_executors"] = None
    if "retries" in flags:
        flags["retry"] = None
    return {key: value for key, value in spec.items() if value is not None and key not in _ONCE} | flags


def _check_uploads(client: "Stoker", job_id: str, spec: Any) -> None:
    from stoker import flows

    for name in ("app", "py_files", "files", "jars", "archives"):
        references = spec.get(name) or ()
        for reference in [references] if isinstance(references, str) else references:
            file = uploaded(reference)
            if file is not None and not client.run(flows.uploaded(file.sha256))["complete"]:
                gone = f"{file.name} was uploaded for it and has been removed"
                raise CommandError(f"{job_id}: {gone}: submit it anew")


def _settings(texts: list[str]) -> dict[str, str]:
    from daemon.cli.shared.job_file import assignments

    return assignments(texts, "--conf")


@fetches()
def decommission(
    client: "Stoker",
    job_id: JobId,
    executors: Annotated[
        list[int], typer.Argument(metavar="EXECUTOR...", help="Their numbers, as `stoker job` shows them.")
    ],
    reason: Annotated[str, option("--reason", "Reason, shown with the job.", "TEXT")] = "",
) -> Fetched:
    """Ask a job's driver to release executors once their blocks have moved.

    This does not count as a failure; if the job still needs as many executors, the policy places others.

    Example: stoker decommission job-7 2 3
    """
    answer = client.decommission(job_id, executors, reason)
    numbers = ("executor " if len(executors) == 1 else "executors ") + ", ".join(map(str, executors))
    shows = f"`stoker job {answer['id']}` shows it"
    return Fetched(answer, f"The driver of {answer['id']} releases {numbers}; {shows}.")
