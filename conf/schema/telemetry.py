"""The config's section `telemetry`: to which OpenTelemetry collector the traces of jobs go."""

from typing import Annotated

from pydantic import AfterValidator, Field

from conf.schema.fields import Strict, Text, web_address
from conf.units import SECONDS_PER_DAY


class Telemetry(Strict):
    """Destination of jobs' traces, by OTLP over HTTP; OTEL_* variables supply the values left out."""

    endpoint: Annotated[Annotated[Text, AfterValidator(web_address)] | None, Field(repr=False)] = None
    """URL of the collector, such as http://localhost:4318; null: OTEL_EXPORTER_OTLP_ENDPOINT."""
    headers_file: Annotated[Text, Field(min_length=1)] | None = None
    """A file of further request headers, a line each, as `Authorization: Bearer ...`."""
    service_name: Annotated[Text, Field(min_length=1, max_length=200)] | None = None
    """Name of this daemon in traces; null: OTEL_SERVICE_NAME, or stoker."""
    timeout: Annotated[float, Field(ge=0.1, le=60, allow_inf_nan=False)] = 10.0
    """Timeout of an answer, seconds."""
    give_up: Annotated[float, Field(ge=1, le=30 * SECONDS_PER_DAY, allow_inf_nan=False)] = SECONDS_PER_DAY
    """Seconds after its job's end after which a trace is dropped."""
    ca: Annotated[Text, Field(min_length=1)] | None = None
    """The file of trusted certificates; null: those of the system."""
