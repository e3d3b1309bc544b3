"""Forecasts and estimates of one term behind one object."""

from collections.abc import Callable
from typing import Any

from daemon.store.job_store import Store
from daemon.what_if.estimator import Estimates
from daemon.what_if.what_if import WhatIfService
from environment.decisions.sizing import Sizes
from environment.model.cluster_model import ClusterModel
from environment.model.vms.job_registry import Changes
from environment.simulation.durations.belief_errors import LearnedErrors


class Forecasts:
    """`what_if` and `estimates` are for any thread, the methods for the loop's."""

    def __init__(
        self,
        model: ClusterModel,
        store: Store,
        sizes: Sizes,
        check_allowed: Callable[[str], None],
        chosen: Callable[[], tuple[str, dict[str, Any]]],
        fallback: tuple[str, dict[str, Any]] | None = None,
    ) -> None:
        """`check_allowed` raises for a policy that may not decide; `chosen` returns the acting policy.

        The `fallback`, a name and options, decides in estimates where that one fails, as in the daemon.
        """
        self._model = model
        errors = LearnedErrors()
        self.what_if = WhatIfService(sizes, check_allowed, model.options.keeping, errors.now, fallback)
        self.estimates = Estimates(self.what_if, chosen, store.estimates, errors)

    def start(self) -> None:
        """Estimate from now on."""
        self.estimates.start()

    def show(self) -> None:
        """Take the model's present state as the start of forecasts."""
        self.what_if.show(self._model)

    def observe(self, changes: Changes) -> None:
        """Compare estimates with the outcomes."""
        self.estimates.observe(changes.jobs, waiting=self._model.anyone())

    def close(self) -> None:
        """End threads and worker processes."""
        self.estimates.stop()
        self.what_if.close()
