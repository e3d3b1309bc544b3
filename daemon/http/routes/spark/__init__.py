"""Routes of Spark's drivers and tools: applications, files, spark-submit's REST protocol."""

from fastapi import FastAPI

from daemon.http.app_options import AppOptions
from daemon.http.routes.spark.applications import add_applications
from daemon.http.routes.spark.files import add_files
from daemon.http.routes.spark.spark_rest import add_spark_rest, version_teller
from daemon.http.server.scheduler_interface import Leadership
from daemon.schemas.spark_rest import SparkErrors
from daemon.store.job_store import Store


def add_spark_routes(app: FastAPI, leadership: Leadership, store: Store, options: AppOptions) -> None:
    """Add all routes of Spark."""
    add_files(app, leadership, store)
    add_applications(app, leadership)
    add_spark_rest(app, leadership, store, options.homes, options.driver)


def answer_in_spark_words(app: FastAPI, options: AppOptions) -> None:
    """Add the middleware that turns errors on Spark's paths into Spark's own form."""
    app.add_middleware(SparkErrors, spark_version=version_teller(options.homes))
