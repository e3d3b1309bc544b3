"""Forecasts and estimates of one term behind one object."""

from collections.abc import Callable

from conf.schema import PolicyChoice
from daemon.policy.active_policies import PolicySwitch
from daemon.store.job_store import Store
from daemon.what_if.estimator import Estimates
from daemon.what_if.promotions import Promotions
from daemon.what_if.what_if import WhatIfService
from environment.decisions.sizing import Sizes
from environment.model.cluster_model import ClusterModel
from environment.model.messages import events as ev
from environment.model.messages.records import JobRecord
from environment.model.vms.job_registry import Changes
from environment.simulation.durations.belief_errors import LearnedErrors


class Forecasts:
    """`what_if`, `estimates` and `promotions` are for any thread, the methods for the loop's."""

    def __init__(
        self,
        model: ClusterModel,
        store: Store,
        sizes: Sizes,
        policies: PolicySwitch,
        put: Callable[[ev.Event], None],
        now: Callable[[], float],
        fallback: PolicyChoice | None = None,
    ) -> None:
        """`put` takes an event for the loop, to which a promotion is one.

        The `fallback` decides in estimates where the acting policy fails, as in the daemon.
        """
        self._model = model
        errors = LearnedErrors()
        second = None if fallback is None else (fallback.name, fallback.options)
        self.what_if = WhatIfService(sizes, policies.check_allowed, errors.now, second)
        self.estimates = Estimates(self.what_if, policies.chosen, store.estimates, errors)

        def page(limit: int, before: str | None) -> list[JobRecord]:
            return store.jobs.page(limit=limit, before=before)

        def switched(policy: str) -> None:
            put(ev.PolicyChanged(now(), policy))

        self.promotions = Promotions(self.what_if, policies, page, switched, now)

    def start(self) -> None:
        """Estimate from now on."""
        self.estimates.start()
        self.promotions.start()

    def show(self) -> None:
        """Take the model's present state as the start of forecasts."""
        self.what_if.show(self._model)

    def observe(self, changes: Changes) -> None:
        """Compare estimates with the outcomes, and wake the watch over a promoted policy."""
        self.promotions.observe(changes)
        self.estimates.observe(changes.jobs, waiting=self._model.anyone())

    def close(self) -> None:
        """End threads and worker processes."""
        self.promotions.close()
        self.estimates.stop()
        self.what_if.close()
