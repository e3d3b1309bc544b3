"""The connection to a Mesos master, through pymesos: calls out, events in.

pymesos runs callbacks in its I/O thread, where an exception ends the thread; so callbacks only hand events
over. One pymesos driver lives for one connection: when that is lost, refused or answered with an error, the
driver is discarded and, after a pause that doubles, the next one subscribes with the same framework id.
Nothing that happens here tears the framework down.

No user of a link waits for the master: a thread of each connection makes the calls (`session`), a thread of
the link, which makes no call itself, watches the connection, and a third thread follows the leading master
(`detector`).
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from conf.util.backoff import Backoff
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord
from environment.number_format import clock
from framework.mesos.agent_poller import AgentPoller
from framework.mesos.agent_sizes import AWAY, read_agents
from framework.mesos.bounded_http import Credentials
from framework.mesos.leader_detector import Detector, is_zookeeper
from framework.mesos.pymesos_driver import SchedulerDriver
from framework.mesos.sandboxes import RemoteSandbox, local_sandbox
from framework.mesos.session import Session, SessionOptions
from framework.mesos.translate import (
    Json,
    OfferAllocator,
    agent_url,
    inverse_offer_from_json,
    offer_from_json,
    role_of,
    task_to_json,
)
from framework.substrate import Describe, Emit, Sandbox

log = structlog.get_logger("mesos")

#: Between attempts at a master that does not answer or accept: it may be back, or another may lead, any time.
BACKOFF = Backoff(first=0.25, longest=4.0)
#: Between attempts at one that answers, and not as it should.
REFUSED_BACKOFF = Backoff(first=0.25, longest=15.0)
#: Seconds between two looks at the connection, when nothing calls for one.
_LOOK = 0.2
#: Connections that were given up and still hang somewhere; no other is tried while there are more.
_MOST_ABANDONED = 20
#: Seconds that calls which wait get when the link is stopped.
_LAST_CALLS = 1.0


class LocalMesos(Protocol):
    """A Mesos on this machine that ends together with its tasks."""

    @property
    def agents(self) -> Path:
        """Folder with the work folders of its agents, by name."""
        ...

    @property
    def state(self) -> str:
        """State in words, for /readyz."""
        ...

    def took_its_tasks(self) -> bool:
        """Whether it has ended, and so all tasks that it ran, since this was last asked."""
        ...


class MasterLink:
    """A framework's link to its master: the `framework.substrate.Substrate` of Mesos."""

    #: See `Substrate`.
    name = "mesos"

    def __init__(
        self,
        options: SessionOptions,
        emit: Emit,
        framework_id: str | None,
        may_call: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.time,
        local: LocalMesos | None = None,
    ) -> None:
        """Under the id that an earlier subscription gave, if any; see `framework.substrate.Connect`.

        `may_call` is asked right before each call to the master, in the thread that makes it. The master is
        the `local` Mesos, if there is one.
        """
        self._options = options
        self._local = local
        self._emit = emit
        #: Credentials for requests to masters and agents.
        self.credentials = Credentials(options.principal, options.secret)
        self._census = AgentPoller(self._read_agents, self._tell_agents)
        self._may_call = may_call
        self._now = now
        self.framework_id = framework_id
        #: The name of `options.master` for texts, without its credentials.
        self._master = options.master.rpartition("@")[2]
        self._address = options.master if ":" in options.master else f"{options.master}:5050"
        self._detector: Detector | None = None
        if is_zookeeper(options.master):
            self._detector = Detector(options.master, self._look_now)
            scheme, _, rest = options.master.partition("://")
            self._master = f"the leading master of {scheme}://{rest.rpartition('@')[2]}"
        self._state = f"connecting to {self._master}"
        self._session: Session | None = None
        #: How many subscriptions there were.
        self._subscriptions = 0
        #: Sessions that were abandoned and have not ended yet.
        self._abandoned: list[Session] = []
        self._pause = BACKOFF.first
        self._next_try = 0.0
        self._redirected_to: str | None = None
        #: The leading master at the last check; with a new one, nothing is as it was.
        self._leader = ""
        self._offers: dict[str, Json] = {}
        self._agents: dict[str, str] = {}
        #: Since when agents have no connection to the master, as far as it was asked; for the census alone.
        self._away: dict[str, float] = {}
        #: The last logged reason for the missing connection.
        self._told = ""
        self._look = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._watch, name="mesos-link", daemon=True)

    @property
    def subscribed(self) -> bool:
        """Whether the master has accepted us on the present connection, and was active lately."""
        session = self._session
        return session is not None and session.subscribed and not self._doubt(session)

    @property
    def state(self) -> str:
        """State of the connection, in words, for /readyz."""
        session = self._session
        if session is not None and session.subscribed and (doubt := self._doubt(session)):
            return f"connected to {session.master}, which may hang: {doubt}"
        return self._state

    @property
    def far(self) -> bool:
        """See `Substrate`."""
        return self._local is None

    def checks(self) -> Mapping[str, str]:
        """See `Substrate`."""
        local = {} if self._local is None else {"embedded mesos": self._local.state}
        return {self.name: self.state, **local}

    def all_lost(self) -> str:
        """See `Substrate`."""
        lost = self._local is not None and self._local.took_its_tasks()
        return "the embedded Mesos ended, and its tasks with it" if lost else ""

    def sandbox(self, task: ExecutorRecord) -> Sandbox:
        """See `Substrate`."""
        if self.framework_id is None:
            raise FileNotFoundError("no master knows the framework now")
        if self._local is not None:
            return local_sandbox(self._local.agents / task.vm_name, self.framework_id, task.task_id)
        url = self.agent_url(task.vm_id)
        if not url:
            raise OSError(f"the agent on {task.vm_name} has not reported since the daemon started")
        return RemoteSandbox(url, self.framework_id, task.task_id, self.credentials)

    def agent_url(self, agent_id: str) -> str | None:
        """URL of the agent's own HTTP API, from its latest offer; None before the first offer."""
        return self._agents.get(agent_id)

    def start(self) -> None:
        """Connect, and whenever the connection is lost, connect again."""
        if self._detector is not None:
            self._detector.start()
        self._census.start()
        self._thread.start()

    def measure(self, seconds: float) -> bool:
        """See `Substrate`: ask the master now which agents it has, and wait so long for its answer."""
        return self.subscribed and self._census.ask(seconds)

    def stop(self) -> None:
        """Leave the master; tasks go on running, and the framework may come back."""
        session = self._session
        if session is not None and not self._doubt(session):
            session.drain(_LAST_CALLS)
        self._stopping = True
        self._census.stop()
        self._look.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._detector is not None:
            self._detector.stop()

    def execute(self, command: cmd.Command, describe: Describe, subscription: int | None = None) -> None:
        """Make the call that a command asks for, after those before it.

        A command that was decided under an earlier `subscription` than the present one is dropped where it
        would mean something else on this one: a SUPPRESS would silence it. Kills and reconciliations mean the
        same on all.

        Lost calls raise nothing, since the model's timeouts and the reconciliation after the next
        subscription find them; only a launch that was never sent is reported at once.
        """
        session = self._session
        if session is None or not session.subscribed:
            if isinstance(command, cmd.Launch):
                self._refuse(command.task_ids, command.vm.id, "the connection to the master was lost")
            return
        if subscription not in (None, session.number) and not isinstance(
            command, cmd.KillTask | cmd.Reconcile
        ):
            if isinstance(command, cmd.Launch):
                why = "it was decided under an earlier connection to the master"
                self._refuse(command.task_ids, command.vm.id, why)
            return
        match command:
            case cmd.Launch():
                self._launch(session, command, describe)
            case cmd.Decline(offer_ids=ids, refuse_seconds=seconds):
                for offer_id in ids:
                    self._offers.pop(offer_id, None)
                _decline(session, ids, seconds)
            case cmd.AnswerInverse(offer_ids=ids, accept=accept):
                _answer_inverse(session, ids, accept=accept)
            case cmd.Suppress():
                session.call("SUPPRESS", lambda driver: driver.suppressOffers())
            case cmd.Revive():
                session.call("REVIVE", lambda driver: driver.reviveOffers())
            case cmd.KillTask(task_id=task_id):
                session.call("KILL", lambda driver: driver.killTask({"value": task_id}))
            case cmd.Reconcile(tasks=tasks):
                session.call("RECONCILE", lambda driver: driver.reconcile(tasks))

    def acknowledge(self, status: Json) -> None:
        """Notify the master that a status update is stored."""
        session = self._session
        if session is not None and "uuid" in status:
            session.call("ACKNOWLEDGE", lambda driver: driver.acknowledgeStatusUpdate(status))

    # ---- the watch over the connection -------------------------------------------------------------

    def _watch(self) -> None:
        """Maintain a connection until `stop`; the only thread that makes and discards sessions."""
        while not self._stopping:
            self._look.clear()
            self._tend(time.monotonic())
            self._look.wait(_LOOK)
        if self._session is not None:
            self._session.close("the daemon stops")
            self._session = None

    def _tend(self, now: float) -> None:
        """Drop a connection that is silent, dead, or to the wrong master; make one when it is time."""
        self._abandoned = [session for session in self._abandoned if not session.over]
        leader, nobody = self._address, ""
        if self._detector is not None:
            leader, nobody = self._detector.leader, self._detector.state
        session = self._session
        if leader != self._leader:
            self._leader = leader
            if session is not None:
                self._put_away(session, f"{leader} leads now" if leader else nobody)
            # Its pauses are not for another one.
            self._pause, self._next_try = BACKOFF.first, now
        elif session is not None and (why := session.trouble(now)):
            self._put_away(session, why)
        if self._session is not None:
            return
        if not leader:
            self._state = f"not connected to {self._master}: {nobody}"
        elif len(self._abandoned) > _MOST_ABANDONED:
            self._state = f"not connected to {self._master}: {len(self._abandoned)} earlier connections hang"
        elif not self._may_call():
            self._state = f"not connected to {self._master}: another daemon may lead by now"
        elif now >= self._next_try:
            master, self._redirected_to = self._redirected_to or leader, None
            self._session = Session(self, self._options, master, self.framework_id, self._may_call, self._now)
            try:
                self._session.start()
            except RuntimeError as error:  # this machine has no room for its thread now
                self._session, self._next_try = None, now + self._pause
                self._pause = BACKOFF.following(self._pause)
                self._state = f"not connected to {self._master}: {error}"

    def _look_now(self) -> None:
        self._look.set()

    def _doubt(self, session: Session) -> str:
        now = time.monotonic()
        return session.trouble(now) or session.doubt(now)

    def _put_away(self, session: Session, why: str) -> None:
        self._session = None
        self._state = f"not connected to {self._master}: {why}; trying again"
        session.fall_silent()
        if session.subscribed or (why != self._told and not session.redirected_to):
            self._told = why
            self._emit(ev.Disconnected(self._now(), why), None)
        session.close("the connection to the master was lost")
        self._abandoned.append(session)
        self._offers.clear()
        if self._detector is None:  # otherwise ZooKeeper knows better
            self._redirected_to = session.redirected_to
        if session.removed:
            self._forget_framework()
        if session.subscribed and not session.refused:
            # Otherwise it goes on growing: two with one id would evict each other for ever.
            self._pause = BACKOFF.first
        self._next_try = time.monotonic() + (0.0 if self._redirected_to else self._pause)
        log.warning("master lost", master=session.master, why=why, pause=self._pause)
        self._pause = (REFUSED_BACKOFF if session.refused else BACKOFF).following(self._pause)

    def _forget_framework(self) -> None:
        """Drop the framework id, which the master refuses for ever, and subscribe under a new one.

        The master has ended its tasks. The reconciliation after the next subscription finds that they are
        gone. The new id replaces the stored one; a process that starts before that with the old one comes
        here again.
        """
        log.error("the master has removed our framework", framework=self.framework_id)
        self.framework_id = None

    # ---- launches --------------------------------------------------------------------------------

    def _launch(self, session: Session, command: cmd.Launch, describe: Describe) -> None:
        offers = [self._offers.pop(i) for i in command.offer_ids if i in self._offers]
        if len(offers) < len(command.offer_ids):
            self._refuse(command.task_ids, command.vm.id, "an offer was rescinded")
            return
        purse, tasks = OfferAllocator(offers), []
        sent: list[str] = []
        for task_id in command.task_ids:
            try:
                task, process, name = describe(task_id)
                resources = purse.pay(task.resources, task.ports)
            except (OSError, ValueError) as error:
                self._refuse((task_id,), command.vm.id, str(error))  # the others may be of other jobs
                continue
            sent.append(task_id)
            tasks.append(
                task_to_json(
                    task,
                    process,
                    name,
                    resources,
                    user=process.user or self._options.task_user,
                    secret_variables=self._options.secret_variables,
                )
            )
        if not tasks:
            _decline(session, command.offer_ids)
            return
        ids = [{"value": i} for i in command.offer_ids]

        def launch(driver: SchedulerDriver) -> None:
            # The remainder is wanted back at once: others may wait for it.
            driver.launchTasks(ids, tasks, filters={"refuse_seconds": 0.0})

        session.call("ACCEPT", launch, unsent=lambda why: self._refuse(sent, command.vm.id, why))

    def _refuse(self, task_ids: Sequence[str], vm_id: str, why: str) -> None:
        """Report for each task that it was never started, as the master would have."""
        for task_id in task_ids:
            self._emit(ev.TaskChanged(self._now(), task_id, "dropped", vm_id, "launch_not_sent", why), None)

    # ---- reports of the session -----------------------------------------------------------------------

    def on_subscribed(self, session: Session, framework_id: str) -> None:
        """Record the accepted subscription; the consumer of the event stores the id before it acts on it."""
        self.framework_id = framework_id
        self._subscriptions += 1
        session.number = self._subscriptions
        self._offers.clear()
        self._state = f"subscribed to {session.master}"
        log.info("subscribed", master=session.master, framework=framework_id)
        self._emit(ev.Subscribed(self._now(), framework_id, session.number), None)
        self._census.anew()

    def on_offers(self, session: Session, offers: list[Json]) -> None:
        """Hold the offers; of one agent only those to one role, as no task can use two roles' resources."""
        roles = {offer["agent_id"]["value"]: role_of(offer) for offer in (*offers, *self._offers.values())}
        held = [offer for offer in offers if role_of(offer) == roles[offer["agent_id"]["value"]]]
        if others := [offer["id"]["value"] for offer in offers if offer not in held]:
            _decline(session, others)
        self._offers.update((offer["id"]["value"], offer) for offer in held)
        self._agents.update(agent_url(offer) for offer in offers)
        told = tuple(map(offer_from_json, held))
        self._census.hint(told)
        self._emit(ev.OffersReceived(self._now(), told), None)

    def on_inverse_offers(self, offers: list[Json]) -> None:
        """The master wants VMs back."""
        told = tuple(map(inverse_offer_from_json, offers))
        self._emit(ev.InverseOffersReceived(self._now(), told), None)

    def on_rescinded(self, offer_id: str) -> None:
        """The master takes an offer back."""
        self._offers.pop(offer_id, None)
        self._emit(ev.OfferRescinded(self._now(), offer_id), None)

    def on_event(self, event: ev.Event, status: Json | None = None) -> None:
        """Pass on an event; a status update is acknowledged once its result is stored."""
        self._emit(event, None if status is None else partial(self.acknowledge, status))

    def on_trouble(self) -> None:
        """The session is of no use any more."""
        self._look_now()

    def _tell_agents(self, found: ev.VmsMeasured) -> None:
        self._emit(replace(found, at=self._now()), None)

    def _read_agents(self) -> ev.VmsMeasured | None:
        session, options = self._session, self._options
        if session is None or not session.subscribed:
            return None
        found = read_agents(session.master, options.roles, self.credentials, gpus=options.gpus)
        now, away = self._now(), {vm_id for vm_id, why in found.closed if why == AWAY}
        self._away = {vm_id: self._away.get(vm_id, now) for vm_id in away}
        since = {vm_id: f" since {clock(at)}" for vm_id, at in self._away.items()}
        return replace(found, closed=tuple((i, f"{why}{since.get(i, '')}") for i, why in found.closed))


def _decline(session: Session, offer_ids: Sequence[str], refuse_seconds: float | None = None) -> None:
    ids = [{"value": offer_id} for offer_id in offer_ids]
    filters = None if refuse_seconds is None else {"refuse_seconds": refuse_seconds}
    session.call("DECLINE", lambda driver: driver.declineOffer(ids, filters=filters))


def _answer_inverse(session: Session, offer_ids: Sequence[str], *, accept: bool) -> None:
    ids = [{"value": offer_id} for offer_id in offer_ids]
    if accept:
        session.call("ACCEPT_INVERSE_OFFERS", lambda driver: driver.acceptInverseOffers(ids))
    else:
        session.call("DECLINE_INVERSE_OFFERS", lambda driver: driver.declineInverseOffer(ids))
