"""Builds the scheduler of a term from its inputs: the components, the loop over them, the service."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from daemon.launch.launching import Launching
from daemon.policy.active_policies import PolicySwitch
from daemon.queues.queues import DaemonQueues
from daemon.scheduler.command_executor import CommandExecutor
from daemon.scheduler.components import Components
from daemon.scheduler.foundation import TermInputs, foundation_of
from daemon.scheduler.loop import SchedulingLoop
from daemon.scheduler.readiness import Readiness
from daemon.scheduler.saving import Saver
from daemon.scheduler.service import Service
from daemon.scheduler.stage_timings import Stages
from daemon.scheduler.timers import Timers
from daemon.submission.submissions import JobSubmissions
from daemon.vms.vms import vms_of
from daemon.what_if.forecasts import Forecasts
from environment.decisions.sizing import Sizes


def service_of(
    inputs: TermInputs, taking_up: Callable[[], AbstractContextManager[None]] = nullcontext
) -> Service:
    """The scheduler of a term; restoring happens within `taking_up`. OSError, StoreError, PolicyError."""
    parts = components_of(inputs)
    return Service(SchedulingLoop(parts, taking_up), parts)


def components_of(inputs: TermInputs) -> Components:
    """All components, wired together; nothing runs yet."""
    config, store, launcher = inputs.config, inputs.store, inputs.launcher
    base = foundation_of(inputs)
    inbox, session, now = base.inbox, base.session, base.clock.now
    policies = PolicySwitch(config, store, session.renew, now)
    launching = Launching(
        store,
        launcher,
        base.model,
        inbox,
        holds_until=session.holds_until,
        now=now,
        data_dir=inputs.data_dir,
        connect=lambda emit: inputs.connect(emit, store.facts.get("framework_id"), session.may_act, now),
        requeues=config.leader.lost_drivers == "requeue",
    )
    substrate = launching.substrate
    vms = vms_of(
        inputs.provider,
        store,
        put=inbox.put,
        put_and_wait=inbox.put_and_wait,
        may_act=session.may_act,
        now=now,
    )
    queues = DaemonQueues(config, store, inbox.put_and_wait, now)
    saver = Saver(config, base, queues.watch, policies.trouble, inputs.data_dir)
    troubles = {"policy": policies.trouble, "files": launcher.files.trouble, "threads": launching.trouble}
    return Components(
        base,
        substrate,
        policies,
        launching,
        vms,
        queues,
        JobSubmissions(
            config, store, launcher, inputs.profiles, inbox, queues, substrate.measure, base.clock
        ),
        Forecasts(
            base.model,
            store,
            Sizes.configured(config.sizes),
            policies,
            inbox.put,
            now,
            config.fallback,
        ),
        saver,
        Stages(now()),
        CommandExecutor(base, launching, vms.provisioner),
        Timers(base, saver.budget, vms, substrate),
        Readiness(base, substrate, saver, vms, troubles),
    )
