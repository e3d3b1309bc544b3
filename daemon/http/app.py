"""The web application: every route, the gate before them, error responses, the page.

Routes call the scheduler or the store and answer with a body of `daemon.schemas`. `http/server/gate.py`
checks each request first; `http/server/problem_details.py` has the error responses.
"""

from fastapi import Depends, FastAPI

from daemon.auth.access import access_of
from daemon.http.app_options import AppOptions
from daemon.http.metrics import Metrics
from daemon.http.openapi import describe
from daemon.http.routes.jobs import add_job_routes
from daemon.http.routes.operate import add_operation_routes
from daemon.http.routes.spark import add_spark_routes, answer_in_spark_words
from daemon.http.server.gate import Gate
from daemon.http.server.problem_details import handle_problems, no_lost_query
from daemon.http.server.scheduler_interface import Leadership
from daemon.page.routes import add_page
from daemon.store.job_store import Store


def create_app(leadership: Leadership, store: Store, options: AppOptions) -> FastAPI:
    """The API as an ASGI app."""
    app = FastAPI(
        title="Stoker",
        summary="Places the executors of Apache Spark jobs on cloud VMs",
        version=options.version,
        docs_url=None,  # its page loads scripts from elsewhere: ours is among the page's files
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(no_lost_query)],
    )
    access = access_of(
        lambda: app.routes,
        token=options.token,
        hosts=options.hosts,
        users=options.users,
        directory=options.directory,
    )
    metrics = Metrics(leadership, store, lambda: access.authenticator.failed)
    add_job_routes(app, leadership, store)
    add_operation_routes(app, leadership, store, metrics.text, options)
    add_spark_routes(app, leadership, store, options)
    app.state.stream = add_page(
        app, leadership, store, access.authenticator, access.sessions, version=options.version
    )
    app.add_middleware(
        Gate,
        entrance=access.authorizer,
        observe=metrics.observe,
        most=options.max_requests,
        audit=options.audit,
    )
    answer_in_spark_words(app, options)
    handle_problems(app)
    describe(app, with_token=access.authenticator.wants_somebody)
    return app
