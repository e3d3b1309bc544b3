"""Routes of jobs: submission, dry run, lists, details, end, events and forecasts."""

from fastapi import FastAPI

from daemon.http.routes.jobs.dry_run import add_dry_run
from daemon.http.routes.jobs.events import add_events
from daemon.http.routes.jobs.jobs import add_jobs
from daemon.http.routes.jobs.submissions import ShortWay, Submissions, add_submissions
from daemon.http.routes.jobs.what_if import add_foresight
from daemon.http.server.scheduler_interface import Leadership
from daemon.store.job_store import Store


def add_job_routes(app: FastAPI, leadership: Leadership, store: Store) -> None:
    """Add all routes of jobs, and the middleware that shortens the way of submissions."""
    submissions = Submissions(leadership)
    add_submissions(app, submissions)
    add_jobs(app, leadership, store)
    add_events(app, store)
    add_foresight(app, leadership, store)
    add_dry_run(app, leadership, store)
    app.add_middleware(ShortWay, submissions=submissions)
