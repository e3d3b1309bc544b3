"""Base classes of all bodies of the HTTP API, and their shared fields: texts and intervals.

Times are seconds since the epoch, money is dollars, memory MiB. The text below a field describes it in
`/openapi.json`. `jobs.py` defines the bodies about jobs, `queries.py` the query parameters.
"""

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict
from stoker.characters import escape_surrogates

from conf.schema.documented_model import DocumentedModel
from conf.util.secret_masking import masked_urls
from environment.simulation.durations.prediction_intervals import Interval

Printed = Annotated[str, BeforeValidator(escape_surrogates)]
Said = Annotated[Printed, BeforeValidator(masked_urls)]


class Body(DocumentedModel):
    """Part of an answer."""

    model_config = ConfigDict(frozen=True)


class IntervalBody(Body):
    """A mean, and the interval that holds 90 of 100 draws."""

    mean: float
    """The mean of all draws."""
    low: float
    """5 of 100 are below."""
    high: float
    """5 of 100 are above."""


def interval_body(found: Interval) -> IntervalBody:
    """An interval."""
    return IntervalBody(mean=found.mean, low=found.low, high=found.high)
