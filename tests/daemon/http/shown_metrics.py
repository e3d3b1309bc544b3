"""All that /metrics can show, and an evaluator of rules' expressions on it.

`python -m tests.daemon.http.shown_metrics` stores it in docs/metrics.md.

The evaluator knows the PromQL that our rules use: selectors, `/`, comparisons, `and`, and `increase`,
`sum` and `max`, where everything counted was counted in the window.
"""

import ast
import operator
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from conf.schema import Config
from conf.schema.sharing import QueueSpec
from daemon.core.cluster_status import ClusterStatus, ProviderStatus
from daemon.core.estimate import Coverage, IntervalCounts
from daemon.core.status import BudgetStatus, DeliveryOutcome, Health, PolicyStatus, ShadowStatus
from daemon.http.metrics import Metrics
from daemon.notifications.notification_service import NotificationService, TracingStatus
from daemon.queues.live_queues import LiveQueues
from daemon.queues.queue_service import QueueService
from daemon.schemas.webhooks import WebhookBody
from daemon.store.job_store import Store
from environment.model.cluster_model import Changes
from environment.model.messages.vm_accounts import Charge
from tests.daemon.small_scheduler import SmallScheduler

STORED = Path(__file__).parents[3] / "docs/metrics.md"
_MARK = "<!-- made of /metrics -->\n"


class Rigged(SmallScheduler):
    """All is well, unless a test says otherwise."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.calls: Mapping[tuple[str, str], int] = {("open", "ok"): 1}
        self.trouble = ""
        self.faults, self.busy = 0, 0.0
        self.bad: frozenset[str] = frozenset()
        self.covered = Coverage(IntervalCounts(90, 5, 5))
        self.spent = BudgetStatus("2026-11-22", 5.0, 1.0, hold=False)
        #: What is not well with the webhook that there is.
        self.hook: dict[str, Any] = {}
        #: What is not well with the traces that are sent.
        self.tracing: dict[str, Any] = {}
        self.queues = QueueService(LiveQueues(Config(queues={"prod": QueueSpec()}), store), lambda: self.seen)

    @property
    def webhooks(self) -> NotificationService:
        """There is one."""
        scheduler = self

        class One(NotificationService):
            def status(self) -> list[WebhookBody]:
                """As set."""
                came = dict.fromkeys(get_args(DeliveryOutcome), 0) | {
                    "given up": scheduler.hook.get("given_up", 0)
                }
                since = scheduler.hook.get("fails_since")
                return [
                    WebhookBody(
                        name="chat", url="", on=[], queues=[], users=[], state="idle", delivered_at=None,
                        fails_since=since, failure="", next_at=None, behind=0.0, came=came,
                    )
                ]  # fmt: skip

            def traces(self) -> TracingStatus:
                """As set."""
                came = dict.fromkeys(get_args(DeliveryOutcome), 0) | {
                    "given up": scheduler.tracing.get("given_up", 0)
                }
                return TracingStatus(came, 0, scheduler.tracing.get("fails_since"))

        return One({}, self.store)

    @webhooks.setter
    def webhooks(self, _: NotificationService) -> None:
        """Ignore the webhooks."""

    def cluster(self) -> ClusterStatus:
        """With this provider."""
        return replace(super().cluster(), provider=ProviderStatus(self.calls, self.trouble))

    def policy(self) -> PolicyStatus:
        """With these faults, and a shadow."""
        shadow = ShadowStatus("rr", {}, 5, 2, 0, 0, "")
        return replace(super().policy(), faults=self.faults, busy=self.busy, shadow=shadow)

    def coverage(self) -> Coverage:
        """As set."""
        return self.covered

    def health(self) -> Health:
        """As set."""
        return Health(not self.bad, {}, self.bad)


def shown(scheduler: SmallScheduler, store: Store) -> str:
    """Text of /metrics after one request."""
    metrics = Metrics(scheduler, store)
    metrics.observe("GET", "/", 200, 0.1)
    return metrics.text().decode()


def holds(rule: str, text: str) -> bool:
    """Return whether the expression holds for the text of /metrics; AssertionError for an unknown metric."""
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    selected: list[float] = []

    def select(match: re.Match[str]) -> str:
        found = [each.value for each in samples if _matches(each, match[1], match[2] or "")]
        selected.append(sum(found))
        return f"X[{len(selected) - 1}]"

    plain = re.sub(r"(?<![\w\"])(stoker_\w+|up)(?:\{([^}]*)\})?(?:\[\w+\])?", select, rule)
    for name in ("increase", "sum", "max"):
        plain = re.sub(rf"\b{name}(?: by \(\w+\) )?\(", "(", plain)
    return bool(_value(ast.parse(plain.strip(), mode="eval").body, selected))


def _matches(sample: Sample, name: str, wanted: str) -> bool:
    labels = re.findall(r'(\w+)(!?=)"([^"]*)"', wanted)
    return sample.name == name and all(
        (sample.labels.get(label) == value) == (sign == "=") for label, sign, value in labels
    )


_OPERATORS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Gt: operator.gt, ast.Lt: operator.lt, ast.Eq: operator.eq, ast.Div: operator.truediv,
}  # fmt: skip


def _value(node: ast.expr, selected: Sequence[float]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Subscript(slice=ast.Constant(value=int(number))):
            return selected[number]
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(each, selected) for each in values)
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            return _OPERATORS[type(sign)](_value(left, selected), _value(right, selected))
        case ast.BinOp(left=left, op=sign, right=right):
            return _OPERATORS[type(sign)](_value(left, selected), _value(right, selected))
    raise AssertionError(f"not known: {ast.unparse(node)}")


def names(text: str) -> dict[str, set[str]]:
    """The labels of each series by its name."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def everything() -> str:
    """Text of /metrics with every feature in use."""
    with tempfile.TemporaryDirectory() as folder, closing(Store(f"sqlite:///{folder}/stoker.db")) as store:
        of = ("2026-11-22", "general-1.7", "general", "m1.large")
        used = Charge(*of, "job-1", "ann", "night", "ff", "used", 0.75)
        store.changes.save(Changes((), (), charges=(used, used._replace(kind="difference", dollars=0.1))))
        return shown(Rigged(store), store)


def table(text: str) -> str:
    """The metrics as a table for people."""
    return "".join(("| metric | kind | labels | what |\n|---|---|---|---|\n", *_rows(text)))


def _rows(text: str) -> Iterator[str]:
    for family in sorted(text_string_to_metric_families(text), key=lambda family: family.name):
        if family.name.endswith("_created"):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
        yield f"| `{name}` | {family.type} | {', '.join(labels) or '-'} | {family.documentation} |\n"


def document(text: str) -> str:
    """docs/metrics.md with that table."""
    return STORED.read_text(encoding="utf-8").partition(_MARK)[0] + _MARK + "\n" + table(text)


if __name__ == "__main__":
    STORED.write_text(document(everything()), encoding="utf-8")
