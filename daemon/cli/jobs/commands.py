"""Registers the commands of this folder."""

import typer

from daemon.cli.jobs import (
    events,
    groups,
    history_server,
    job_list,
    kill_retry,
    show,
    spark_conf,
    spark_ui,
    submit,
)
from daemon.cli.jobs.app_arguments import SubmitCommand


def register(app: typer.Typer) -> None:
    """Add the commands to `stoker`."""
    app.command(cls=SubmitCommand)(submit.submit)
    for command in (
        job_list.jobs,
        show.job,
        show.logs,
        events.events,
        kill_retry.kill,
        kill_retry.retry,
        groups.wait,
        spark_ui.ui,
        history_server.history,
        kill_retry.decommission,
    ):
        app.command()(command)
    for former in (show.explain, show.describe):
        app.command(hidden=True)(former)
    app.command("spark-conf")(spark_conf.spark_conf)
