"""The connection to a Mesos master, through pymesos: calls out, events in.

pymesos runs callbacks in its I/O thread, where an exception ends the thread; so callbacks only hand events
over. One pymesos driver lives for one connection: when that is lost, refused or answered with an error, the
driver is put away and, after a pause that doubles, the next one subscribes with the same framework id.
The framework is torn down by nothing that happens here.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import structlog

from environment import events as ev
from framework.agents import agent_sizes
from framework.session import Session, SessionOptions
from framework.spark import ProcessSpec
from framework.translate import Json, Purse, agent_url, offer_from_json, role_of, task_to_json

log = structlog.get_logger("mesos")

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 15.0

#: What a task runs, and the name it is shown under.
Describe = Callable[[ev.Task], tuple[ProcessSpec, str]]
#: Takes an event and the status update to acknowledge once it is stored.
Emit = Callable[[ev.Event, Json | None], None]


class MesosLink:
    """A framework's link to its master. Events may come from any thread; calls are made from one."""

    def __init__(
        self,
        options: SessionOptions,
        emit: Emit,
        framework_id: str | None,
    ) -> None:
        """Under the id that an earlier subscription gave, if there was one."""
        self._options = options
        self._emit = emit
        self.framework_id = framework_id
        #: In words, for /readyz.
        self.state = f"connecting to {options.master}"
        self._session: Session | None = None
        self._pause = FIRST_PAUSE
        self._next_try = 0.0
        self._master = options.master
        self._offers: dict[str, Json] = {}
        self._agents: dict[str, str] = {}
        #: The master is to be asked for the sizes of its agents.
        self._to_measure = False

    @property
    def subscribed(self) -> bool:
        """Whether the master has accepted us on the present connection."""
        return self._session is not None and self._session.subscribed

    def agent_url(self, agent_id: str) -> str | None:
        """Where the agent's own HTTP API is, as its latest offer said; None before it offered anything."""
        return self._agents.get(agent_id)

    def tend(self) -> None:
        """Connect when there is no connection and it is time to; give up on one that is silent or dead."""
        now = time.monotonic()
        session = self._session
        if session is not None and (why := session.trouble(now)):
            self._put_away(session, why)
        if self._session is None and now >= self._next_try:
            self._session = Session(self, self._options, self._master, self.framework_id)
        if self._to_measure and self._session is not None and (master := self._session.driver.master):
            self._to_measure = False
            threading.Thread(target=self._measure, args=(master,), name="mesos-sizes", daemon=True).start()

    def stop(self) -> None:
        """Leave the master; what runs goes on, and the framework may come back."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def execute(self, command: ev.Command, describe: Describe) -> None:
        """Make the call that a command asks for.

        What is lost on the way is found by the model's timeouts and the reconciliation after the next
        subscription, so nothing is raised for it.
        """
        session = self._session
        if session is None or not session.subscribed:
            if isinstance(command, ev.Launch):
                self._refuse(command, "the connection to the master was lost")
            return
        try:
            self._call(session.driver, command, describe)
        except (OSError, RuntimeError) as error:  # pymesos raises RuntimeError for whatever is not a 2xx
            log.warning("call failed", call=type(command).__name__, error=str(error)[:300])

    def acknowledge(self, status: Json) -> None:
        """Tell the master that a status update is stored."""
        session = self._session
        if session is None or "uuid" not in status:
            return
        with contextlib.suppress(OSError, RuntimeError):
            session.driver.acknowledgeStatusUpdate(status)

    # ---- calls -----------------------------------------------------------------------------------

    def _call(self, driver: Any, command: ev.Command, describe: Describe) -> None:
        match command:
            case ev.Launch():
                self._launch(driver, command, describe)
            case ev.Decline(offer_ids=ids, refuse_seconds=seconds):
                for offer_id in ids:
                    self._offers.pop(offer_id, None)
                driver.declineOffer([{"value": i} for i in ids], filters={"refuse_seconds": seconds})
            case ev.Suppress():
                driver.suppressOffers()
            case ev.Revive():
                driver.reviveOffers()
            case ev.KillTask(task_id=task_id):
                driver.killTask({"value": task_id})
            case ev.Reconcile(tasks=tasks):
                driver.reconcile(tasks)

    def _launch(self, driver: Any, command: ev.Launch, describe: Describe) -> None:
        offers = [self._offers.pop(i) for i in command.offer_ids if i in self._offers]
        if len(offers) < len(command.offer_ids):
            self._refuse(command, "an offer was taken back")
            return
        purse, tasks = Purse(offers), []
        for task in command.tasks:
            try:
                process, name = describe(task)
                resources = purse.pay(task.cpus, task.memory_mib, task.ports, task.resources)
            except (OSError, ValueError) as error:
                self._refuse(command, str(error))
                driver.declineOffer([{"value": i} for i in command.offer_ids])
                return
            tasks.append(
                task_to_json(
                    task,
                    process,
                    command.vm.id,
                    name,
                    resources,
                    user=self._options.task_user,
                    image=self._options.task_image,
                    secret_variables=self._options.secret_variables,
                )
            )
        # The remainder is wanted back at once: others may wait for it.
        filters = {"refuse_seconds": 0.0}
        driver.launchTasks([{"value": i} for i in command.offer_ids], tasks, filters=filters)

    def _refuse(self, command: ev.Launch, why: str) -> None:
        """Say for each task that it was never started, as the master would have."""
        for task in command.tasks:
            self._emit(ev.TaskChanged(time.time(), task.task_id, "dropped", command.vm.id, "", why), None)

    # ---- what the session reports --------------------------------------------------------------------

    def on_subscribed(self, framework_id: str, master: str) -> None:
        """The master has accepted us; the id is stored by whoever takes the event, before it acts on it."""
        self.framework_id = framework_id
        self._offers.clear()
        self.state = f"subscribed to {master}"
        self._to_measure = True
        log.info("subscribed", master=master, framework=framework_id)
        self._emit(ev.Subscribed(time.time(), framework_id), None)

    def on_offers(self, driver: Any, offers: list[Json]) -> None:
        """Hold the offers; of one agent only those to one role, as no task can use two roles' resources."""
        roles = {offer["agent_id"]["value"]: role_of(offer) for offer in (*offers, *self._offers.values())}
        held = [offer for offer in offers if role_of(offer) == roles[offer["agent_id"]["value"]]]
        if others := [offer["id"] for offer in offers if offer not in held]:
            driver.declineOffer(others)
        self._offers.update((offer["id"]["value"], offer) for offer in held)
        self._agents.update(agent_url(offer) for offer in offers)
        self._emit(ev.OffersReceived(time.time(), tuple(map(offer_from_json, held))), None)

    def on_rescinded(self, offer_id: str) -> None:
        """The master takes an offer back."""
        self._offers.pop(offer_id, None)
        self._emit(ev.OfferRescinded(time.time(), offer_id), None)

    def on_event(self, event: ev.Event, status: Json | None = None) -> None:
        """Pass on what needs nothing from us."""
        self._emit(event, status)

    def _measure(self, master: str) -> None:
        options = self._options
        try:
            sizes = agent_sizes(master, options.roles, options.principal, options.secret)
        except (OSError, ValueError) as error:
            # Then they are learned from offers, and may be overrated until they were empty once.
            log.warning("the sizes of the agents are not known", master=master, why=str(error))
            return
        self._emit(ev.VmsMeasured(time.time(), sizes), None)

    def _put_away(self, session: Session, why: str) -> None:
        redirected = session.redirected_to
        session.close()
        self._session = None
        self._offers.clear()
        self._master = redirected or self._options.master
        if session.removed:
            self._forget_framework()
        if session.subscribed and not session.refused:
            # Otherwise it goes on growing: two with one id would evict each other for ever.
            self._pause = FIRST_PAUSE
        self._next_try = time.monotonic() + (0.0 if redirected else self._pause)
        self.state = f"not connected to {self._options.master}: {why}; trying again"
        log.warning("master lost", master=self._options.master, why=why, pause=self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if session.subscribed:
            self._emit(ev.Disconnected(time.time()), None)

    def _forget_framework(self) -> None:
        """The master will never take our id again, and has ended its tasks: begin anew under another one.

        The reconciliation after the next subscription finds that they are gone. What is remembered is
        replaced by the new id; whoever starts before that with the old one comes here again.
        """
        log.error("the master has removed our framework", framework=self.framework_id)
        self.framework_id = None
