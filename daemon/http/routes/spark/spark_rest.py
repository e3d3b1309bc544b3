"""Spark's REST submission protocol: the entry point for spark-submit in cluster mode.

A submission becomes a job like any other; `framework.spark` interprets Spark's properties. Submissions
go by ids that nobody can guess. The store keeps a hash of them, as an idempotency key that no client of the
API can choose.
"""

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from fastapi import FastAPI, Path, Request
from pydantic import TypeAdapter, ValidationError
from starlette.convertors import StringConvertor, register_url_convertor

from conf.loader import what_is_right
from conf.schema import Driver, JobSpec, NameOrNone
from daemon.auth.permits import permit_of
from daemon.core.errors import RejectedError
from daemon.core.url_paths import CREATE, UNKNOWN_VERSION, VERSION
from daemon.http.server.scheduler_interface import Leadership, submit_one
from daemon.schemas import spark_rest as protocol
from daemon.schemas.spark_rest import DriverState, SubmissionRequest, Written
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import SubmittedSpec
from environment.model.messages.records import JobRecord
from framework.spark import RESERVED_ENVIRONMENT, SparkHomes
from framework.spark.application import is_reserved
from framework.spark.submit_properties import job_properties

_NAME: TypeAdapter[str] = TypeAdapter(NameOrNone)
#: A blank is in no key that a header can have.
_KEY = "spark submission "
_ID = re.compile(r"driver-[0-9]{14}-[0-9]{39}")
SubmissionId = Annotated[str, Path(description="The submission's id, from the answer to its creation.")]

_ERRORS: dict[int | str, dict[str, Any]] = {"default": {"model": protocol.ErrorBody, "description": "Error"}}
_STATES: Mapping[str, DriverState] = {
    "queued": "SUBMITTED",
    "placing": "SUBMITTED",
    "starting": "SUBMITTED",
    "running": "RUNNING",
    "relaunching": "RUNNING",
    "finished": "FINISHED",
    "failed": "FAILED",
    "killed": "KILLED",
}
#: Variables of the client's own Spark and machine: spark-submit sends all that begin with SPARK_ or MESOS_.
_OF_THE_CLIENT = (
    *RESERVED_ENVIRONMENT,
    "MESOS_*",
    "SPARK_BEELINE_*",
    "SPARK_CLASSPATH",
    "SPARK_CONF_DIR",
    "SPARK_CONNECT_*",
    "SPARK_DAEMON_*",
    "SPARK_DIST_CLASSPATH",
    "SPARK_DRIVER_*",
    "SPARK_ENV_LOADED",
    "SPARK_HISTORY_*",
    "SPARK_IDENT_STRING",
    "SPARK_JARS_DIR",
    "SPARK_LAUNCHER_OPTS",
    "SPARK_LOCAL_*",
    "SPARK_LOG_*",
    "SPARK_MASTER*",
    "SPARK_NICENESS",
    "SPARK_NO_DAEMONIZE",
    "SPARK_PID_DIR",
    "SPARK_PREFER_IPV6",
    "SPARK_PRINT_LAUNCH_COMMAND",
    "SPARK_PUBLIC_DNS",
    "SPARK_SCALA_VERSION",
    "SPARK_SHUFFLE_*",
    "SPARK_SSH_*",
    "SPARK_SUBMIT_*",
    "SPARK_TESTING",
    "SPARK_WORKER_*",
)


class _OtherVersion(StringConvertor):
    """The number of a version of the protocol that is not spoken."""

    regex = f"(?!{VERSION[1:]}/)[0-9]{{1,9}}"


register_url_convertor("version", _OtherVersion())


def add_spark_rest(
    app: FastAPI, leadership: Leadership, store: Store, homes: SparkHomes, driver: Driver
) -> None:
    """Add the protocol's routes to the API; `driver` is the config of drivers."""
    spark_version = version_teller(homes)
    submissions = f"/{VERSION}/submissions"

    def known(submission_id: str) -> JobRecord:
        record = store.jobs.by_key(_key(submission_id)) if _ID.fullmatch(submission_id) else None
        if record is None:
            raise RejectedError(404, "No such submission", f"there is no submission {submission_id[:80]}")
        return record

    def answer(kind: type[Any], *, success: bool = True, **fields: Any) -> Written:
        return Written(kind(server_spark_version=spark_version(), success=success, **fields))

    @app.post(CREATE, response_model=protocol.CreatedBody, responses=_ERRORS)
    def create_submission(asked: Request, request: SubmissionRequest) -> Written:
        """Submit a job as spark-submit does in cluster mode. When the answer arrives, the job is on disk.

        The API's token may be the property spark.stoker.token.
        """
        said, set_aside = _job(request, homes, driver)
        spec, submitter = permit_of(asked).admit(said, _login(request.environment_variables))
        submission_id = f"driver-{time.strftime('%Y%m%d%H%M%S')}-{secrets.randbelow(10**39):039d}"
        submitted = SubmittedSpec(spec, _key(submission_id), submitter=submitter)
        record, _ = submit_one(leadership.leader(), submitted)
        told = f"{record.job.id}: `stoker job {record.job.id}` shows where it runs, or why it waits"
        if set_aside:
            told += f"; without effect: {_without_effect(set_aside)}"
        made = answer(
            protocol.CreatedBody,
            submission_id=submission_id,
            message=told,
            unknown_fields=sorted(request.model_extra or ()) or None,
        )
        made.headers["Location"] = f"/v1/jobs/{record.job.id}"
        return made

    @app.get(f"{submissions}/status/{{submission_id}}", response_model=protocol.StatusBody, responses=_ERRORS)
    def submission_status(submission_id: SubmissionId) -> Written:
        """Return the state of a submission."""
        record = known(submission_id)
        tasks = store.jobs.shown_executors(record.job.id)
        driver = next((task for task in tasks if task.number is None and not task.ended), None)
        return answer(
            protocol.StatusBody,
            submission_id=submission_id,
            driver_state=_state(record),
            # spark-submit takes a message for an error.
            message=record.reason if record.state in ("failed", "killed") else None,
            worker_id=driver and driver.vm_name,
            worker_host_port=f"{driver.address}:{driver.ports[0]}" if driver and driver.ports else None,
        )

    @app.post(f"{submissions}/kill/{{submission_id}}", response_model=protocol.KilledBody, responses=_ERRORS)
    def kill_submission(submission_id: SubmissionId) -> Written:
        """End a submission; an ended one is not changed."""
        record = known(submission_id)
        if record.ended:
            told = f"{record.job.id} has {_state(record).lower()} already"
            return answer(protocol.KilledBody, success=False, submission_id=submission_id, message=told)
        leadership.leader().kill(record.job.id)
        return answer(protocol.KilledBody, submission_id=submission_id, message=f"{record.job.id} is killed")

    @app.post(f"{submissions}/killall", response_model=protocol.AllKilledBody, responses=_ERRORS)
    def kill_all_submissions() -> Written:
        """End all jobs submitted by this protocol; others are not changed."""
        going = store.jobs.open.by_keys(_KEY)
        for job_id in going:
            leadership.leader().kill(job_id)
        return answer(protocol.AllKilledBody, message=f"killed: {', '.join(going) or 'there was none'}")

    @app.post(f"{submissions}/clear", response_model=protocol.ClearedBody, responses=_ERRORS)
    def clear_submissions() -> Written:
        """Refuse to remove ended jobs, since the config decides that."""
        told = "ended jobs are kept for as long as the daemon's config says (retention)"
        return answer(protocol.ClearedBody, success=False, message=told)

    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]

    @app.api_route("/v{number:version}/submissions/{rest:path}", methods=methods, include_in_schema=False)
    def other_version(number: str) -> Written:
        """Say which version of the protocol there is."""
        told = f"unknown protocol version v{number}; this server's is {VERSION}"
        raise RejectedError(UNKNOWN_VERSION, "Unknown protocol version", told)


def version_teller(homes: SparkHomes) -> Callable[[], str]:
    """Return a function that reports the version of the default Spark, in full where that is known."""

    def tell() -> str:
        try:
            return homes.there(None).version
        except ValueError:
            return homes.default

    return tell


def _key(submission_id: str) -> str:
    return _KEY + hashlib.sha256(submission_id.encode()).hexdigest()


def _state(record: JobRecord) -> DriverState:
    """A job's state in the words of the protocol."""
    if record.state == "failed" and record.placed_at is None:
        return "ERROR"  # nothing of it ever ran
    if (record.retried or record.more_memory) and record.state in ("queued", "placing", "starting"):
        return "RELAUNCHING"
    return _STATES[record.state]


def _job(request: SubmissionRequest, homes: SparkHomes, driver: Driver) -> tuple[JobSpec, Mapping[str, str]]:
    """The job that is asked for, and the properties without effect; RejectedError when there is none."""
    try:
        said = job_properties(request.spark_properties)
        fields = dict(said.fields)
        app = _local(request.app_resource)
        if not app.endswith((".py", ".jar")):
            raise ValueError(f"{app}: the application should be a Python file (.py) or a jar (.jar)")
        if app.endswith(".py") and request.main_class:
            raise ValueError(f"--class {request.main_class} is for a jar, but {app} is a Python file")
        for name in ("py_files", "files", "jars", "archives"):
            fields[name] = [one for one in map(_local, fields.get(name, ())) if one != app]
        for jar in fields["jars"]:
            if jar.endswith(".py"):
                raise ValueError(f"--jars: {jar} is a Python file; use --py-files for those")
        fields["spark"] = fields.get("spark") or homes.for_client(request.client_spark_version)
    except ValueError as error:
        raise RejectedError(422, "The submission cannot be followed", str(error)) from error
    if said_of_driver := fields.get("driver"):
        fields["driver"] = driver.model_dump() | said_of_driver
    variables = request.environment_variables
    fields["env"] = {
        **{name: value for name, value in variables.items() if not is_reserved(name, _OF_THE_CLIENT)},
        **fields.get("env", {}),
    }
    given = {"app": app, "args": request.app_args, "main_class": request.main_class or None, **fields}
    try:
        return JobSpec.model_validate(given), said.set_aside
    except ValidationError as error:
        raise RejectedError(422, "The submission is not valid", _words(error)) from error


def _without_effect(set_aside: Mapping[str, str]) -> str:
    """Properties that have no effect, with the reasons; those of one reason together."""
    names: dict[str, list[str]] = {}
    for name, why in set_aside.items():
        names.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(each)} ({why})" for why, each in names.items())


def _login(variables: Mapping[str, str]) -> str:
    """The login that the client claims; RejectedError for an invalid name."""
    try:
        return _NAME.validate_python(variables.get("SPARK_USER", ""))
    except ValidationError as error:
        (wrong, *_) = error.errors()
        what = what_is_right(wrong, JobSpec, ("owner",))
        raise RejectedError(422, "The submission is not valid", f"SPARK_USER: {what}") from error


def _words(error: ValidationError) -> str:
    """Errors in a job's fields, in one line."""
    return "; ".join(
        ": ".join(filter(None, (".".join(map(str, one["loc"])), what_is_right(one, JobSpec, one["loc"]))))
        for one in error.errors()
    )


def _local(reference: str) -> str:
    """A file on the daemon's host as a path, behind which a # and a name may stand; others as they are."""
    parts = urlsplit(reference)
    if parts.scheme != "file":
        return reference
    if parts.netloc not in ("", "localhost"):
        raise ValueError(f"{reference}: is on {parts.netloc}; a file: should be one of the daemon's host")
    if "#" in (path := unquote(parts.path)):
        raise ValueError(f"{reference}: has a # in its name, which would begin an alias: rename the file")
    return path + (f"#{parts.fragment}" if parts.fragment else "")
