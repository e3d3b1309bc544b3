"""States of Mesos tasks and the reasons for them, as far as the model's reaction depends on them.

`tasks.py`, `model/tasks/task_loss.py` and `model/jobs/backoff.py` define the reactions.
"""

from typing import Literal

#: A Mesos task's state, without the TASK_ prefix, in lower case.
TaskState = Literal[
    "staging", "starting", "running", "killing", "finished", "failed", "killed", "error",
    "lost", "dropped", "unreachable", "gone", "gone_by_operator", "unknown",
]  # fmt: skip

#: States after which a task never runs again. Lost ones are final only without partition awareness.
ENDED: frozenset[str] = frozenset(
    {"finished", "failed", "killed", "error", "lost", "dropped", "gone", "gone_by_operator"}
)
#: Ends that are the cluster's doing and not the task's own.
BY_CLUSTER: frozenset[str] = frozenset(
    {"lost", "dropped", "unreachable", "gone", "gone_by_operator", "unknown"}
)
#: Reasons for which the master or an operator ends tasks that did nothing wrong.
CLUSTER_REASONS: frozenset[str] = frozenset(
    {
        "agent_draining",
        "agent_removed",
        "agent_removed_by_operator",
        "agent_disconnected",
        "framework_removed",
    }
)
#: Reasons for which a launch came to nothing that say nothing about its VM: the offers were gone, the
#: master or the agent was, or it was never sent.
NOT_THE_VM: frozenset[str] = frozenset(
    {
        "invalid_offers",
        "launch_not_sent",
        "agent_disconnected",
        "agent_removed",
        "agent_removed_by_operator",
        "agent_unknown",
        "master_disconnected",
        "framework_removed",
        "reconciliation",
    }
)
#: The exit code of a driver on the cluster that could not have a port (of the script that starts it).
PORT_TAKEN = 98
#: States that say that the task was never started.
NEVER_RAN: frozenset[str] = frozenset({"error", "dropped"})
